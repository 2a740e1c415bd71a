"""The training log `log.jsonl`: a line per optimizer step and per held-out evaluation."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import TrainerCallback

from lexigraft.atomic import write_jsonl
from lexigraft.errors import UserError
from lexigraft.inference.likelihood import Likelihood
from lexigraft.inference.masked_likelihood import MaskedLikelihood
from lexigraft.training.distributed import Computation, on_rank_zero, rank

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class TrainingLog:
    """The lines of a cell's log; steps are counted over all phases."""

    def __init__(self, file: Path):
        self.file = file

    def resume_at(self, step: int) -> None:
        """Drop what was logged after `step`, a half-written last line included."""
        write_jsonl(self.file, [line for line in self.lines() if line["step"] <= step])

    def write(self, line: dict[str, Any]) -> None:
        """Append one line and flush it."""
        with self.file.open("a", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")

    def lines(self, event: str | None = None) -> list[dict[str, Any]]:
        """All complete lines, or those of one event."""
        if not self.file.exists():
            return []
        *texts, _ = self.file.read_text("utf-8").split("\n")
        lines = [json.loads(text) for text in texts]
        return [line for line in lines if event in (None, line["event"])]


class HeldOutCurve:
    """Evaluates held-out sentences before the first step, after the last, and in between.

    Parameters
    ----------
    score
        Computes the likelihood under the current model. All processes call it, as each may hold a
        shard of the model; rank 0 logs it.
    english
        The same for English sentences, which measure forgetting; None without any.
    steps
        Optimizer steps of all phases.
    points
        Evaluations between the start and the end, equally spaced.
    """

    def __init__(
        self,
        training_log: TrainingLog,
        score: Callable[["PreTrainedModel"], Likelihood | MaskedLikelihood],
        *,
        steps: int,
        points: int,
        name: str,
        english: Callable[["PreTrainedModel"], Likelihood | MaskedLikelihood] | None = None,
    ):
        self.training_log, self.score, self.name, self.english = training_log, score, name, english
        self.at = {round(steps * i / (points + 1)) for i in range(points + 2)}

    def evaluate(self, step: int, tokens: int, computation: Computation) -> None:
        """Evaluate and log if `step` is one of the points and has not been logged."""
        if step not in self.at or on_rank_zero(self._is_logged, step):
            return
        scores = self._metrics(computation(self.score), step)
        if self.english is not None:
            english = self._metrics(computation(self.english), step)
            scores |= {f"english_{name}": value for name, value in english.items()}
        line = {"event": "heldout", "step": step, "tokens": tokens, **scores}
        on_rank_zero(self.training_log.write, line)

    def _is_logged(self, step: int) -> bool:
        return any(line["step"] == step for line in self.training_log.lines("heldout"))

    def _metrics(
        self, likelihood: Likelihood | MaskedLikelihood, step: int
    ) -> dict[str, float | None]:
        if not math.isfinite(likelihood.nats):
            raise UserError(
                f"{self.name}: the held-out likelihood is {likelihood.nats} after step {step}; "
                "check the source model, or lower learning_rate"
            )
        return {
            "bits_per_byte": likelihood.bits_per_byte,
            # JSON has no infinity.
            "perplexity": min(likelihood.perplexity, 1e300),
        }


class StepLogger(TrainerCallback):
    """Logs the steps of one phase, updates its progress bar, and stops a run that diverges.

    Parameters
    ----------
    phase, offset
        Number of the phase, and the steps of the phases before it.
    tokens
        Training tokens after each step since the cell began, [steps + 1]; `tokens[0]` is the sum of
        the phases before.
    peak_speed
        Tokens per second at the hardware's peak, see `throughput.peak_tokens_per_second`.
    """

    def __init__(
        self,
        training_log: TrainingLog,
        heldout: HeldOutCurve,
        phase: int,
        offset: int,
        tokens: np.ndarray,
        peak_speed: float | None = None,
    ):
        self.training_log, self.heldout = training_log, heldout
        self.phase, self.offset, self.tokens = phase, offset, tokens
        self.peak_speed = peak_speed
        self.started_at = 0.0

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        """Open the progress bar where the phase begins or resumes; evaluate at the first step."""
        from tqdm import tqdm

        self.bar = tqdm(
            desc=f"{self.heldout.name} phase {self.phase}",
            total=state.max_steps,
            initial=state.global_step,
            unit="step",
            disable=None if rank() == 0 else True,
        )
        step = self.offset + state.global_step
        self.heldout.evaluate(step, int(self.tokens[state.global_step]), model)

    def on_train_end(self, args, state, control, **kwargs):
        """Close the progress bar."""
        self.bar.close()

    def on_step_begin(self, args, state, control, **kwargs):
        """Start the clock of one step."""
        self.started_at = time.perf_counter()

    def on_log(self, args, state, control, logs=None, model=None, **kwargs):
        """Write the line of the step that just ended; runs before a checkpoint of that step."""
        if logs is None or "loss" not in logs:
            return  # the Trainer's summary at the end of a phase
        seconds = time.perf_counter() - self.started_at
        step = self.offset + state.global_step
        if not math.isfinite(logs["loss"]) or not math.isfinite(logs["grad_norm"]):
            raise UserError(
                f"{self.heldout.name}: the loss is {logs['loss']} and its gradient "
                f"{logs['grad_norm']} at step {step}; lower learning_rate or raise warmup"
            )
        before, after = self.tokens[state.global_step - 1 : state.global_step + 1].tolist()
        speed = (after - before) / seconds
        if rank() == 0:
            self.training_log.write(
                {
                    "event": "step",
                    "phase": self.phase,
                    "step": step,
                    "tokens": after,
                    "loss": logs["loss"],
                    **{name: value for name, value in logs.items() if name.endswith("_loss")},
                    "learning_rate": logs["learning_rate"],
                    "tokens_per_second": speed,
                    "share_of_peak": speed / self.peak_speed if self.peak_speed else None,
                    "seconds": seconds,
                }
            )
        self.bar.update()
        self.heldout.evaluate(step, after, model)
