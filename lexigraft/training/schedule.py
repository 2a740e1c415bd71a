"""Learning-rate schedules: one in each phase, or one over all phases."""

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from lexigraft.training.settings import Strategy

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LambdaLR


@dataclass(frozen=True)
class Schedule:
    """A warm-up from zero and the decay after it, and where in it a phase begins.

    Attributes
    ----------
    shape
        `cosine` and `linear` decay to zero; `constant` does not.
    warmup
        Optimizer steps of the warm-up.
    steps
        Optimizer steps of the whole schedule.
    offset
        How many of them earlier phases have taken.
    """

    shape: str
    warmup: int
    steps: int
    offset: int = 0

    def factor(self, step: int) -> float:
        """The factor of the phase's learning rate after `step` steps of the phase."""
        done = self.offset + step
        if done < self.warmup:
            return done / self.warmup
        if self.shape == "constant":
            return 1.0
        part = min(1.0, (done - self.warmup) / max(1, self.steps - self.warmup))
        return 1 - part if self.shape == "linear" else 0.5 * (1 + math.cos(math.pi * part))

    def scheduler(self, optimizer: "Optimizer") -> "LambdaLR":
        """The scheduler of an optimizer; only its step has to be saved in a checkpoint."""
        from torch.optim.lr_scheduler import LambdaLR

        return LambdaLR(optimizer, self.factor)


def schedules(strategy: Strategy, steps: list[int]) -> list[Schedule]:
    """The schedule of each phase.

    With `schedule_over: strategy` the phases share one schedule, each continuing where the previous
    one ended: there is no second warm-up where other parameters become trainable (UnifyVocab, §2.3,
    progressive adaptation). Each phase has its own peak learning rate.

    Parameters
    ----------
    steps
        Optimizer steps of each phase.
    """
    if strategy.schedule_over == "phase":
        return [_schedule(strategy, count) for count in steps]
    offsets = [0, *accumulate(steps)][:-1]
    return [_schedule(strategy, sum(steps), offset) for offset in offsets]


def _schedule(strategy: Strategy, steps: int, offset: int = 0) -> Schedule:
    return Schedule(strategy.schedule, math.ceil(strategy.warmup * steps), steps, offset)
