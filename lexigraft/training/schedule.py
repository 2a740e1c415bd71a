"""How the learning rate rises and falls: in each phase anew, or once over all of them."""

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
    """A warm-up from zero and what follows it, and where on it a phase begins.

    Attributes
    ----------
    shape
        `cosine` and `linear` fall to zero; `constant` stays.
    warmup
        Optimizer steps of the warm-up.
    steps
        Optimizer steps of the whole schedule.
    before
        How many of them earlier phases take.
    """

    shape: str
    warmup: int
    steps: int
    before: int = 0

    def factor(self, step: int) -> float:
        """What the phase's learning rate is multiplied by after `step` steps of the phase."""
        done = self.before + step
        if done < self.warmup:
            return done / self.warmup
        if self.shape == "constant":
            return 1.0
        part = min(1.0, (done - self.warmup) / max(1, self.steps - self.warmup))
        return 1 - part if self.shape == "linear" else 0.5 * (1 + math.cos(math.pi * part))

    def scheduler(self, optimizer: "Optimizer") -> "LambdaLR":
        """What changes the optimizer's learning rate; a checkpoint needs to hold its step alone."""
        from torch.optim.lr_scheduler import LambdaLR

        return LambdaLR(optimizer, self.factor)


def schedules(strategy: Strategy, steps: list[int]) -> list[Schedule]:
    """The schedule of each phase.

    With `schedule_over: strategy` the phases follow one schedule, each from where the one before
    left it: nothing warms up or falls a second time where other parameters are set free (paper
    003, §2.3). Each phase keeps its own highest learning rate.

    Parameters
    ----------
    steps
        Optimizer steps of each phase.
    """
    if strategy.schedule_over == "phase":
        return [_schedule(strategy, count) for count in steps]
    befores = [0, *accumulate(steps)][:-1]
    return [_schedule(strategy, sum(steps), before) for before in befores]


def _schedule(strategy: Strategy, steps: int, before: int = 0) -> Schedule:
    return Schedule(strategy.schedule, math.ceil(strategy.warmup * steps), steps, before)
