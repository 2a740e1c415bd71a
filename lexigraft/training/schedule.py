"""Learning-rate schedules: one in each phase, or one over all phases."""

import math
from dataclasses import dataclass

from lexigraft.training.settings import Strategy


@dataclass(frozen=True)
class Schedule:
    """A warm-up from zero and the decay after it, and where in it a phase begins."""

    shape: str  # `cosine` and `linear` decay to zero; `constant` does not
    warmup: int  # optimizer steps of the warm-up
    steps: int  # optimizer steps of the whole schedule
    offset: int = 0  # how many of them earlier phases have taken

    def factor(self, step: int) -> float:
        """The factor of the phase's learning rate after `step` steps of the phase."""
        done = self.offset + step
        if done < self.warmup:
            return done / self.warmup
        if self.shape == "constant":
            return 1.0
        part = min(1.0, (done - self.warmup) / max(1, self.steps - self.warmup))
        return 1 - part if self.shape == "linear" else 0.5 * (1 + math.cos(math.pi * part))


def schedules(strategy: Strategy, steps: list[int]) -> list[Schedule]:
    """The schedule of each phase, by the optimizer steps of each.

    With `schedule_over: strategy` the phases share one schedule, each continuing where the previous
    one ended: there is no second warm-up where other parameters become trainable (UnifyVocab, §2.3,
    progressive adaptation). Each phase has its own peak learning rate.
    """
    spans = [(count, 0) for count in steps]  # steps of the whole schedule, and before the phase
    if strategy.schedule_over == "strategy":
        spans = [(sum(steps), sum(steps[:number])) for number in range(len(steps))]
    return [
        Schedule(strategy.schedule, math.ceil(strategy.warmup * whole), whole, before)
        for whole, before in spans
    ]
