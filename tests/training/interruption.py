"""Runs that end in the middle, for tests of going on."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lexigraft.training.checkpointing import SavePolicy
from lexigraft.training.training_log import StepLogger

EAGER = SavePolicy(seconds=0, factor=0)  # a checkpoint after every step


class Interrupted(Exception):
    pass


@contextmanager
def interrupted_at(step: int) -> Iterator[None]:
    """The cell that is trained within must end at `step`, before the checkpoint of it."""
    original = StepLogger.on_log

    def interrupt(self, args, state, control, logs=None, **kwargs):
        original(self, args, state, control, logs=logs, **kwargs)
        if self.offset + state.global_step == step:
            raise Interrupted

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(StepLogger, "on_log", interrupt)
        yield
