"""Ends a phase as soon as its training loss no longer falls."""

from collections.abc import Sequence

from transformers import TrainerCallback

from lexigraft.training.settings import ConvergedSettings


class StopWhenConverged(TrainerCallback):
    """Stops the Trainer after the step at which its losses `have_converged`.

    All processes log the same loss, and a resumed run reads earlier losses from its checkpoint, so
    all of them stop at the same step.
    """

    def __init__(self, settings: ConvergedSettings):
        self.settings = settings

    def on_log(self, args, state, control, **kwargs):
        """Stop, and save no checkpoint: the state after the phase is written instead."""
        window = self.settings.window
        newest = [line["loss"] for line in state.log_history[-2 * window :] if "loss" in line]
        at_end = state.global_step % window == 0
        if at_end and have_converged(newest, window, self.settings.improvement):
            control.should_training_stop, control.should_save = True, False


def have_converged(losses: Sequence[float], window: int, improvement: float) -> bool:
    """Whether the loss has fallen by less than the share `improvement`.

    The mean of the last `window` losses is compared with that of the `window` losses before them;
    the result is False if there are fewer losses.

    >>> have_converged([4.0, 2.0, 2.0, 1.0], window=2, improvement=0.5)
    False
    >>> have_converged([4.0, 2.0, 2.0, 1.1], window=2, improvement=0.5)
    True
    """
    if len(losses) < 2 * window:
        return False
    before, last = sum(losses[-2 * window : -window]), sum(losses[-window:])
    return last > (1 - improvement) * before
