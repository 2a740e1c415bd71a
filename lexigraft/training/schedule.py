"""The learning rate of each step of a phase."""

import math
from dataclasses import dataclass

DECAY = 0.1  # share of the steps of `wsd`, at the end, as in MiniCPM (Hu et al. 2024)


@dataclass(frozen=True)
class Schedule:
    """A warm-up and the decay after it.

    The warm-up rises linearly, beginning with its first step, and the peak is at the step after it,
    as in transformers' schedules. Those begin at a rate of zero: their first step computes
    gradients and changes nothing, and a training of one step learns nothing.

    >>> [Schedule("linear", warmup=3, steps=7).factor(step) for step in range(7)]
    [0.25, 0.5, 0.75, 1.0, 0.75, 0.5, 0.25]
    """

    shape: str  # `cosine`, `linear` and `wsd` decay to zero; `constant` does not
    warmup: int  # optimizer steps of the warm-up
    steps: int  # optimizer steps of the whole schedule

    @property
    def highest(self) -> float:
        """The highest factor: 1, or less if every step belongs to the warm-up."""
        return min(1.0, self.steps / (self.warmup + 1))

    def factor(self, step: int) -> float:
        """The factor of the learning rate after `step` steps."""
        if step < self.warmup:
            return (step + 1) / (self.warmup + 1)
        if self.shape == "constant":
            return 1.0
        begin = self.warmup
        if self.shape == "wsd":
            begin = max(begin, self.steps - math.ceil(DECAY * self.steps))
        part = min(1.0, max(0, step - begin) / max(1, self.steps - begin))
        return 1 - part if self.shape == "linear" else 0.5 * (1 + math.cos(math.pi * part))


def optimizer_steps(sequences: int, batch_sequences: int) -> int:
    """Optimizer steps of a phase; the last one may have fewer sequences."""
    return math.ceil(sequences / batch_sequences)
