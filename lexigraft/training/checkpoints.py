"""Checkpoints of a running cell: written whole, sealed, and removed when the cell is complete."""

import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import TrainerCallback

from lexigraft.atomic import replacing, write_json
from lexigraft.training.distributed import by_first, wait
from lexigraft.training.objectives.mtp import extra_head_of
from lexigraft.training.phase import TRAINED
from lexigraft.training.store import put_tensors

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SEAL = "whole.json"  # written last into a checkpoint: file name -> bytes
_EXTRA = "extra head: "  # before its tensors' names, which no parameter of a model has


@dataclass(frozen=True)
class SavePolicy:
    """Save when `seconds` have passed since the last save, and `factor` times what it took.

    The second bound keeps the time spent on saving below 1 / factor.
    """

    seconds: float = 60.0
    factor: float = 20.0


@dataclass
class Progress:
    """What the finished phases of a cell leave to the next one, beside the model's weights.

    `trained` are names of the model's own parameters, `adapter_size` counts the numbers in merged
    adapters and new rows, `extra_head` is that of objective `mtp`, `made` are names of the matrices
    that VocADT's adapters were merged into, `by_rows` of those whose new rows alone were trained.
    """

    phases: int = 0
    trained: set[str] = field(default_factory=set)
    adapter_size: int = 0
    extra_head: torch.nn.Linear | None = None
    made: set[str] = field(default_factory=set)
    by_rows: set[str] = field(default_factory=set)

    @property
    def changed(self) -> set[str]:
        """Names of all parameters that are not what they were before the first phase."""
        return self.trained | self.made | self.by_rows


def job_digest(job: dict[str, Any]) -> str:
    """Digest of all that a checkpoint depends on: settings, code, seed, and the inputs' content."""
    inputs = {name: _content(path) for name, path in job["inputs"].items()}
    parts = [job["settings"], inputs, job.get("seed"), job.get("code")]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def checkpoint_folder(cell: str | Path, digest: str) -> Path:
    """The folder for checkpoints of this job; those of other jobs of the cell are deleted."""
    everything = Path(cell) / "checkpoints"
    folder = everything / digest
    folder.mkdir(parents=True, exist_ok=True)
    for other in everything.iterdir():
        if other != folder:
            shutil.rmtree(other)
    return folder


def newest_whole(folder: Path) -> Path | None:
    """The newest sealed checkpoint in a phase's folder; unsealed ones are deleted."""
    checkpoints = sorted(folder.glob("checkpoint-*"), key=step_of)
    for checkpoint in checkpoints:
        if not _is_whole(checkpoint):
            shutil.rmtree(checkpoint)
    return next((c for c in reversed(checkpoints) if c.exists()), None)


def step_of(checkpoint: Path) -> int:
    """The optimizer step, within its phase, after which a checkpoint was taken."""
    return int(checkpoint.name.rpartition("-")[2])


def save_progress(folder: Path, model: "PreTrainedModel", progress: Progress) -> None:
    """Write the state between two phases, then delete the checkpoints of the one that ended."""
    number = progress.phases - 1
    tensors = {
        name: parameter.detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        if name in progress.changed
    }
    if progress.extra_head is not None:
        for name, parameter in progress.extra_head.named_parameters():
            tensors[_EXTRA + name] = parameter.detach().cpu().contiguous()
    facts = {
        "trained": sorted(progress.trained),
        "adapter_size": progress.adapter_size,
        "made": sorted(progress.made),
        "by_rows": sorted(progress.by_rows),
    }
    with replacing(_state_file(folder, number)) as file:
        save_file(tensors, file, metadata={"progress": json.dumps(facts)})
    shutil.rmtree(folder / f"phase-{number}", ignore_errors=True)


def finished_phases(folder: Path, phases: int) -> int:
    """How many of `phases` phases ended and left their state."""
    return max((n + 1 for n in range(phases) if _state_file(folder, n).exists()), default=0)


def load_progress(folder: Path, model: "PreTrainedModel", phases: int) -> Progress:
    """Put the state after the last finished one of `phases` phases into `model`."""
    finished = finished_phases(folder, phases)
    if not finished:
        return Progress()
    file = _state_file(folder, finished - 1)
    with safe_open(file, framework="pt") as saved:
        tensors = {name: saved.get_tensor(name) for name in saved.keys()}  # noqa: SIM118
        facts = json.loads(saved.metadata()["progress"])
    extra = {
        name.removeprefix(_EXTRA): tensors.pop(name)
        for name in list(tensors)
        if name.startswith(_EXTRA)
    }
    put_tensors(model, tensors, file)
    return Progress(
        phases=finished,
        trained=set(facts["trained"]),
        adapter_size=facts["adapter_size"],
        extra_head=extra_head_of(extra).to(model.device) if extra else None,
        made=set(facts["made"]),
        by_rows=set(facts["by_rows"]),
    )


class Checkpointing(TrainerCallback):
    """Asks the Trainer to save by the clock, seals what it saved, keeps only the newest.

    Parameters
    ----------
    kept
        Step of the phase -> file: there it saves whatever the clock says, and puts a copy of the
        trained parameters into the file.
    """

    def __init__(self, folder: Path, policy: SavePolicy, kept: dict[int, Path] | None = None):
        self.folder, self.policy, self.kept = folder, policy, kept or {}
        self.saved_at = time.monotonic()
        self.started_at = 0.0
        self.took = 0.0

    def on_step_end(self, args, state, control, **kwargs):
        """Save if it is time; after the last step the phase itself is written instead."""
        self.started_at = time.monotonic()
        due = by_first(self._is_due) or state.global_step in self.kept
        if due and state.global_step < state.max_steps:
            control.should_save = True

    def on_save(self, args, state, control, **kwargs):
        """Seal the checkpoint, then delete the ones before it."""
        wait()  # each process writes a file of its own
        by_first(self._seal, self.folder / f"checkpoint-{state.global_step}")
        self.saved_at = time.monotonic()
        self.took = self.saved_at - self.started_at

    def _is_due(self) -> bool:
        pause = max(self.policy.seconds, self.policy.factor * self.took)
        return self.started_at - self.saved_at >= pause

    def _seal(self, checkpoint: Path) -> None:
        # Before the seal: a run that goes on from here does not pass here again.
        if file := self.kept.get(step_of(checkpoint)):
            with replacing(file) as copy:
                shutil.copyfile(checkpoint / TRAINED, copy)
        write_json(checkpoint / SEAL, _sizes(checkpoint))
        for other in self.folder.glob("checkpoint-*"):
            if other != checkpoint:
                shutil.rmtree(other)


def _state_file(folder: Path, number: int) -> Path:
    """What a phase leaves when it ends."""
    return folder / f"phase-{number}.safetensors"


def _is_whole(checkpoint: Path) -> bool:
    try:
        return json.loads((checkpoint / SEAL).read_text("utf-8")) == _sizes(checkpoint)
    except (OSError, ValueError):
        return False


def _sizes(checkpoint: Path) -> dict[str, int]:
    files = sorted(path for path in checkpoint.iterdir() if path.name != SEAL)
    return {path.name: path.stat().st_size for path in files}


def _content(place: str | Mapping[str, str] | None) -> Any:
    """What an input holds, by the card of its folder; without a card it counts by its path."""
    if place is None:
        return None
    if isinstance(place, Mapping):
        return {name: _content(one) for name, one in place.items()}
    folder = Path(place) if Path(place).is_dir() else Path(place).parent
    try:
        return json.loads((folder / "card.json").read_text("utf-8"))["files"]
    except (OSError, ValueError, KeyError):
        return str(place)
