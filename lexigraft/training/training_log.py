"""The training log `log.jsonl`, and the speed of a run, computed from it.

It has a line per optimizer step and per held-out evaluation. Speed is also given as a share of the
hardware's peak (model FLOPs utilization).
"""

import json
import logging
import math
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.tracking import TensorBoardTracker, WandBTracker
from tqdm import tqdm
from transformers import PreTrainedModel, TrainerCallback

from lexigraft.artifacts.atomic import write_jsonl
from lexigraft.artifacts.records import read_jsonl
from lexigraft.errors import UserError
from lexigraft.hardware import device, precision
from lexigraft.inference.likelihood import Likelihood
from lexigraft.machine import PEAKS, known_device, setting
from lexigraft.training.distributed import Computation, is_sharded, on_rank_zero, rank, world_size
from lexigraft.training.progress import describe_progress
from lexigraft.training.vocadt_adapter import DenseAdapter
from lexigraft.usage import peak_resident_bytes

logger = logging.getLogger(__name__)
LOG_SECONDS = 30.0  # between two progress lines in the log of a job

Line = dict[str, Any]


class TrainingLog:
    """The lines of a cell's log, with steps over all phases; each goes to `report`, too."""

    def __init__(self, file: Path):
        self.file = file
        self.report: Callable[[Line], None] = lambda line: None

    def resume_at(self, step: int) -> None:
        """Drop what was logged after `step`, including an incomplete last line."""
        write_jsonl(self.file, [line for line in self.lines() if line["step"] <= step])

    def write(self, line: Line) -> None:
        """Append one line and flush it."""
        with self.file.open("a", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")
        self.report(line)

    def lines(self, event: str | None = None) -> list[Line]:
        """All complete lines, or those of one event."""
        lines = read_jsonl(self.file, skip_incomplete=True)
        return [line for line in lines if event in (None, line["event"])]


@dataclass(frozen=True)
class HeldOutCurve:
    """Evaluates held-out sentences before the first step, after the last, and in between."""

    training_log: TrainingLog
    score: Callable[[PreTrainedModel, list[str]], Likelihood]  # of sentences under a model
    texts: dict[str, list[str]]  # prefix of names in the log -> sentences
    steps: int  # of all phases
    points: int  # equally spaced evaluations between the start and the end
    name: str  # of the cell

    def evaluate(self, step: int, tokens: int, computation: Computation) -> None:
        """Evaluate and log if `step` is one of the points and has not been logged."""
        points = (round(self.steps * i / (self.points + 1)) for i in range(self.points + 2))
        if step not in points or on_rank_zero(self._is_logged, step):
            return
        line: Line = {"event": "heldout", "step": step, "tokens": tokens}
        for prefix, sentences in self.texts.items():
            # By all processes, as each may hold a shard of the model.
            likelihood = computation(self.score, sentences)
            if not math.isfinite(likelihood.nats):
                raise UserError(
                    f"{self.name}: the held-out likelihood is {likelihood.nats} after step {step}; "
                    "check the source model, or lower learning_rate"
                )
            line[f"{prefix}bits_per_byte"] = likelihood.bits_per_byte
            line[f"{prefix}perplexity"] = min(likelihood.perplexity, 1e300)  # JSON has no infinity
        on_rank_zero(self.training_log.write, line)

    def _is_logged(self, step: int) -> bool:
        return any(line["step"] == step for line in self.training_log.lines("heldout"))


@dataclass(eq=False)
class StepLogger(TrainerCallback):
    """Logs the steps of one phase, shows its progress, and stops a run that diverges.

    Progress is a bar on a terminal, and otherwise a line in the job's log every `LOG_SECONDS`.
    """

    training_log: TrainingLog
    heldout: HeldOutCurve
    phase: int
    offset: int  # the steps of earlier phases
    # [steps + 1]: training tokens of the cell after each step, beginning with the sum of earlier
    # phases.
    tokens: np.ndarray
    peak_speed: float | None = None  # see `peak_tokens_per_second`
    started_at: float = 0.0
    described_at: float = -math.inf

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        """Open the progress bar where the phase begins or resumes; evaluate at the first step."""
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
        """Start the timer of one step."""
        self.started_at = time.perf_counter()

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        """Write the loss on the validation set, in nats per token."""
        if rank() == 0:
            self.training_log.write(
                {
                    "event": "validation",
                    "phase": self.phase,
                    "step": self.offset + state.global_step,
                    "tokens": int(self.tokens[state.global_step]),
                    "loss": metrics["eval_loss"],
                }
            )

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
                    "steps": self.heldout.steps,
                    "tokens": after,
                    "loss": logs["loss"],
                    **{name: value for name, value in logs.items() if name.endswith("_loss")},
                    "grad_norm": logs["grad_norm"],
                    "learning_rate": logs["learning_rate"],
                    "tokens_per_second": speed,
                    "share_of_peak": speed / self.peak_speed if self.peak_speed else None,
                    "peak_memory_bytes": peak_memory(),
                    "seconds": seconds,
                }
            )
        self.bar.set_postfix_str(f"loss {logs['loss']:.3f}, {speed:,.0f} tokens/s", refresh=False)
        self.bar.update()
        self.heldout.evaluate(step, after, model)
        time_now = time.perf_counter()
        last = state.global_step == state.max_steps
        is_due = last or time_now - self.described_at >= LOG_SECONDS
        if self.bar.disable and rank() == 0 and is_due:
            self.described_at = time_now
            progress = describe_progress(self.training_log.file)
            logger.info("%s: %s", self.heldout.name, progress)


def open_report(name: str, folder: Path, step: int) -> Callable[[Line], None]:
    """A function that passes lines of the log to the service in `LEXIGRAFT_REPORT_TO`.

    Event files of tensorboard are in `folder`; a wandb run has the `name` of the cell. `step` is
    the one after which the training resumes. Raises a UserError if the service is not installed or
    refuses.
    """
    service = setting("report_to")
    if service in (None, "none"):
        return lambda line: None
    tracker: Any
    if service == "wandb":
        project = os.environ.get("WANDB_PROJECT", "lexigraft")
        tracker = WandBTracker(project, name=name, dir=str(folder), reinit="finish_previous")
    else:
        # What was reported after that step, or by another job in the same folder, is hidden.
        tracker = TensorBoardTracker(service, str(folder), purge_step=step + 1 if step else 0)
    try:
        tracker.start()
    except ImportError:
        raise UserError(
            f"report_to: {service} is not installed; run `pip install {service}`, or unset it"
        ) from None
    except Exception as error:  # of a kind that only the service has
        raise UserError(f"report_to: {service}: {error}") from None

    def report(line: Line) -> None:
        group = "train" if line["event"] == "step" else line["event"]
        numbers = {
            f"{group}/{key}": value
            for key, value in line.items()
            if isinstance(value, int | float) and key not in ("step", "steps")
        }
        tracker.log(numbers, step=line["step"])

    return report


def flops_per_token(model: PreTrainedModel) -> float:
    """Floating-point operations of a forward pass for one token: two for each weight.

    Attention's own products and rows that are only looked up do not count. A dense adapter of
    VocADT multiplies the row that it looks up by the source's matrix (VocADT, Appendix D).
    """
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    adapter = getattr(embeddings, "adapter", None)
    lookup = adapter if isinstance(adapter, DenseAdapter) else embeddings
    in_head = set() if head is None else {id(parameter) for parameter in head.parameters()}
    looked_up = sum(p.numel() for p in lookup.parameters() if id(p) not in in_head)
    return 2.0 * (sum(parameter.numel() for parameter in model.parameters()) - looked_up)


def peak_tokens_per_second(model: PreTrainedModel) -> float | None:
    """Tokens per second of all processes at the hardware's peak, with three times a forward pass.

    Frozen parameters count like trained ones, and recomputation does not (Chowdhery et al. 2022,
    Appendix B), so that strategies are compared by the time that they need for a text. None on a
    CPU, in float32, and on a GPU whose peak is unknown, such as a MIG slice.
    """
    if device().type != "cuda" or precision() != torch.bfloat16:
        return None
    known = known_device(torch.cuda.get_device_name())
    return world_size() * PEAKS[known].flops / (3 * flops_per_token(model)) if known else None


def peak_memory() -> int:
    """The peak memory of this process so far, in bytes; on its GPU if it has one."""
    if device().type == "cuda":
        return torch.cuda.max_memory_allocated()
    return peak_resident_bytes()


def summarize_run(training_log: TrainingLog) -> dict[str, Any]:
    """Steps, speed, memory and hardware of the whole run without interruptions, for its card."""
    steps, curve = training_log.lines("step"), training_log.lines("heldout")
    tokens = steps[-1]["tokens"] if steps else 0
    seconds = sum(line["seconds"] for line in steps)
    shares = [(line["share_of_peak"], line["seconds"]) for line in steps if line["share_of_peak"]]
    on_gpu = device().type == "cuda"
    return {
        "steps": len(steps),
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds if steps else None,
        "share_of_peak": sum(s * t for s, t in shares) / seconds if shares else None,
        # Of the first process.
        "peak_memory_bytes": peak_memory(),
        "precision": str(precision()).removeprefix("torch."),
        "device": torch.cuda.get_device_name() if on_gpu else f"{platform.machine()} CPU",
        "processes": world_size(),
        "sharded": is_sharded(),
        "threads": torch.get_num_threads(),
        "heldout_before": curve[0]["bits_per_byte"],
        "heldout_after": curve[-1]["bits_per_byte"],
        "english_before": curve[0].get("english_bits_per_byte"),
        "english_after": curve[-1].get("english_bits_per_byte"),
    }
