"""Checkpoints: those that a training run resumes from, and those that are stored with a cell.

The former are removed when the cell is complete. The last file written to each lists the other
files; without it, a checkpoint is incomplete.
"""

import json
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file
from transformers import PreTrainedModel, TrainerCallback
from transformers.trainer_utils import SaveStrategy

from lexigraft.artifacts.atomic import atomic_file, write_json
from lexigraft.errors import UserError
from lexigraft.machine import setting
from lexigraft.training.distributed import barrier, on_rank_zero
from lexigraft.training.objective import Progress
from lexigraft.training.objectives.mtp import extra_head_of
from lexigraft.training.phase import TRAINED
from lexigraft.training.store import load_tensors

VALIDATIONS = 10  # in a phase with a validation set
COMPLETE = "complete.json"  # written last: file of the checkpoint -> its size in bytes
_EXTRA_HEAD = "extra head: "  # prefix of its tensors' names, which no parameter has


@dataclass(frozen=True)
class SavePolicy:
    """Save when `seconds`, and `factor` times the last save's duration, have passed since it."""

    # A killed job repeats its work since the last save. With a state of 30 GB and 1 GB/s, this is
    # up to 25 minutes; a hundred such jobs use two streams of this speed.
    seconds: float = 60.0
    factor: float = 50.0


def save_policy() -> SavePolicy:
    """The default policy, or one with the minutes of `LEXIGRAFT_SAVE_MINUTES`."""
    minutes = setting("save_minutes")
    return SavePolicy() if minutes is None else SavePolicy(seconds=60 * minutes)


def checkpoint_folder(cell: str | Path, digest: str) -> Path:
    """Create the folder for checkpoints of the job with this digest; delete those of other jobs."""
    parent = Path(cell) / "checkpoints"
    folder = parent / digest
    folder.mkdir(parents=True, exist_ok=True)
    for old in parent.iterdir():
        if old != folder:
            shutil.rmtree(old)
    return folder


def newest_complete(folder: Path) -> Path | None:
    """The newest complete checkpoint in a phase's folder; incomplete ones are deleted."""
    checkpoints = sorted(folder.glob("checkpoint-*"), key=step_of)
    for checkpoint in checkpoints:
        try:
            sizes = json.loads((checkpoint / COMPLETE).read_text("utf-8"))
        except (OSError, ValueError):
            sizes = None
        if sizes != _sizes(checkpoint):
            shutil.rmtree(checkpoint)
    return next((c for c in reversed(checkpoints) if c.exists()), None)


def step_of(checkpoint: Path) -> int:
    """The optimizer step, within its phase, after which a checkpoint was saved."""
    return int(checkpoint.name.rpartition("-")[2])


def save_progress(folder: Path, model: PreTrainedModel, progress: Progress) -> None:
    """Write the state after a phase, then delete the checkpoints of that phase."""
    number = progress.phases - 1
    parameters = {name: p for name, p in model.named_parameters() if name in progress.changed}
    if progress.extra_head is not None:
        parameters |= {_EXTRA_HEAD + name: p for name, p in progress.extra_head.named_parameters()}
    tensors = {
        name: parameter.detach().cpu().contiguous() for name, parameter in parameters.items()
    }
    facts = {
        name: sorted(value) if isinstance(value, set) else value
        for name, value in vars(progress).items()
        if name != "extra_head"
    }
    with atomic_file(_state_file(folder, number)) as file:
        save_file(tensors, file, metadata={"progress": json.dumps(facts)})
    shutil.rmtree(folder / f"phase-{number}", ignore_errors=True)


def finished_phases(folder: Path, phases: int) -> int:
    """How many of `phases` phases have finished and saved their state."""
    return max((n + 1 for n in range(phases) if _state_file(folder, n).exists()), default=0)


def load_progress(
    folder: Path, model: PreTrainedModel, phases: int, changed: Iterable[str] = ()
) -> Progress:
    """Load the state after the last finished one of `phases` phases into `model`.

    `changed` are the names of the parameters that another cell changed before the first phase.
    """
    finished = finished_phases(folder, phases)
    if not finished:
        return Progress(trained=set(changed))
    file = _state_file(folder, finished - 1)
    with safe_open(file, framework="pt") as saved:
        tensors = {name: saved.get_tensor(name) for name in saved.keys()}  # noqa: SIM118
        facts = json.loads(saved.metadata()["progress"])
    extra = {
        name.removeprefix(_EXTRA_HEAD): tensors.pop(name)
        for name in list(tensors)
        if name.startswith(_EXTRA_HEAD)
    }
    for name, parameter in model.named_parameters():
        if name in tensors:  # trained values stay float32; the source's may be rounded
            parameter.data = parameter.data.float()
    load_tensors(model, tensors, file)
    progress = Progress(extra_head=extra_head_of(extra).to(model.device) if extra else None)
    for name, value in facts.items():
        setattr(progress, name, type(getattr(progress, name))(value))
    return progress


class Checkpointing(TrainerCallback):
    """Makes the Trainer save at time intervals, and deletes older checkpoints after each save.

    `retained` maps steps of the phase, after which it always saves, to copies of the parameters.
    With a validation set, the Trainer evaluates `VALIDATIONS` times, saves each time that the loss
    is the lowest so far, and the best checkpoint stays.
    """

    def __init__(self, folder: Path, policy: SavePolicy, retained: dict[int, Path] | None = None):
        self.folder, self.policy, self.retained = folder, policy, retained or {}
        self.saved_at = time.monotonic()
        self.started_at = 0.0
        self.took = 0.0

    def on_step_end(self, args, state, control, **kwargs):
        """Save if it is due; after the last step, the state of the phase is written instead."""
        if args.save_strategy == SaveStrategy.BEST:
            points = (round(state.max_steps * n / VALIDATIONS) for n in range(1, VALIDATIONS + 1))
            control.should_evaluate = state.global_step in points
        self.started_at = time.monotonic()
        pause = max(self.policy.seconds, self.policy.factor * self.took)
        is_due = on_rank_zero(lambda: self.started_at - self.saved_at >= pause)
        due = is_due or state.global_step in self.retained
        if due and state.global_step < state.max_steps:
            control.should_save = True

    def on_save(self, args, state, control, **kwargs):
        """Mark the checkpoint as complete, then delete the ones before it."""
        barrier()  # each process writes its own file
        steps = (state.global_step, state.best_global_step)
        on_rank_zero(self._mark_complete, *(self.folder / f"checkpoint-{step}" for step in steps))
        self.saved_at = time.monotonic()
        self.took = self.saved_at - self.started_at

    def _mark_complete(self, checkpoint: Path, best: Path) -> None:
        # Before the mark: a run that resumes from here does not save this step again.
        if file := self.retained.get(step_of(checkpoint)):
            with atomic_file(file) as copy:
                shutil.copyfile(checkpoint / TRAINED, copy)
        write_json(checkpoint / COMPLETE, _sizes(checkpoint))
        for old in self.folder.glob("checkpoint-*"):
            if old not in (checkpoint, best):
                shutil.rmtree(old)


def retained_steps(steps: list[int], checkpoints: int) -> dict[int, int]:
    """Optimizer steps after which checkpoints are retained, and their numbers from 1.

    They are equally spaced; `steps` are those of each phase. The last checkpoint is the trained
    cell itself, and not included. Raises a UserError if there are more checkpoints than steps.
    """
    total = sum(steps)
    if total and checkpoints > total:
        raise UserError(
            f"strategy: {checkpoints} checkpoints exceed the {total} optimizer steps; lower "
            "checkpoints, or train longer"
        )
    return {round(total * n / checkpoints): n for n in range(1, checkpoints if total else 1)}


def retained_file(folder: Path, step: int) -> Path:
    """The file of the parameters that the phase of a step trains; it becomes a cell in the end."""
    return folder / f"retained-{step}.safetensors"


def _state_file(folder: Path, number: int) -> Path:
    return folder / f"phase-{number}.safetensors"


def _sizes(checkpoint: Path) -> dict[str, int]:
    files = sorted(path for path in checkpoint.iterdir() if path.name != COMPLETE)
    return {path.name: path.stat().st_size for path in files}
