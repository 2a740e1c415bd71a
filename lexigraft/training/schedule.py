"""The learning rate of each step of a phase."""

import math
from dataclasses import dataclass

from lexigraft.training.settings import Strategy


@dataclass(frozen=True)
class Schedule:
    """A warm-up and the decay after it, and the step at which a phase begins.

    The warm-up rises linearly, beginning with its first step, and the peak is at the step after it,
    as in transformers' schedules. Those begin at a rate of zero: their first step computes
    gradients and changes nothing, and a training of one step learns nothing.

    >>> [Schedule("linear", warmup=3, steps=7).factor(step) for step in range(7)]
    [0.25, 0.5, 0.75, 1.0, 0.75, 0.5, 0.25]
    >>> [Schedule("wsd", warmup=1, steps=6, decay=2).factor(step) for step in range(6)]
    [0.5, 1.0, 1.0, 1.0, 1.0, 0.5]
    """

    shape: str  # `cosine`, `linear` and `wsd` decay to zero; `constant` does not
    warmup: int  # optimizer steps of the warm-up
    steps: int  # optimizer steps of the whole schedule
    offset: int = 0  # steps taken by earlier phases
    decay: int | None = None  # optimizer steps of the decay; by default all after the warm-up

    @property
    def highest(self) -> float:
        """The highest factor: 1, or less if every step belongs to the warm-up."""
        return min(1.0, self.steps / (self.warmup + 1))

    def factor(self, step: int) -> float:
        """The factor of the phase's learning rate after `step` steps of the phase."""
        done = self.offset + step
        if done < self.warmup:
            return (done + 1) / (self.warmup + 1)
        if self.shape == "constant":
            return 1.0
        begin = self.warmup if self.decay is None else max(self.warmup, self.steps - self.decay)
        part = min(1.0, max(0, done - begin) / max(1, self.steps - begin))
        return 1 - part if self.shape == "linear" else 0.5 * (1 + math.cos(math.pi * part))


def schedules(strategy: Strategy, steps: list[int]) -> list[Schedule]:
    """The schedule of each phase, from the optimizer steps of each.

    With `schedule_over: strategy` the phases share one schedule, with a peak rate for each: no
    second warm-up when other parameters become trainable (UnifyVocab, §2.3, progressive
    adaptation).
    """
    spans = [(count, 0) for count in steps]  # steps of the whole schedule, and before the phase
    if strategy.schedule_over == "strategy":
        spans = [(sum(steps), sum(steps[:number])) for number in range(len(steps))]
    return [
        Schedule(
            strategy.schedule,
            math.ceil(strategy.warmup * total),
            total,
            offset,
            math.ceil(strategy.decay * total) if strategy.schedule == "wsd" else None,
        )
        for total, offset in spans
    ]


def optimizer_steps(sequences: int, batch_sequences: int) -> int:
    """Optimizer steps of a phase; the last one may have fewer sequences."""
    return math.ceil(sequences / batch_sequences)
