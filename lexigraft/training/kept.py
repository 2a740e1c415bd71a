"""Checkpoints of a cell that stay: taken at equal distances, and scored like cells themselves."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file

from lexigraft.errors import UserError
from lexigraft.training.checkpoints import load_progress
from lexigraft.training.journal import Journal
from lexigraft.training.new_rows import new_tokens
from lexigraft.training.objectives.mtp import EXTRA_HEAD
from lexigraft.training.settings import AdapterSettings, Strategy
from lexigraft.training.store import checkpoint_of, save_cell
from lexigraft.training.trainable import prepare
from lexigraft.training.worn import take_off_all

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True)
class Kept:
    """After which optimizer steps a checkpoint stays, and where its trained parameters wait.

    They wait as the phase has them, adapters apart, and become cells when training is over.

    Attributes
    ----------
    folder
        Where the job's checkpoints lie while it trains.
    ends
        Optimizer steps of the whole training at the end of each phase.
    numbers
        Optimizer step -> number of the checkpoint, from 1. The last one is the trained cell itself
        and is not among them.
    """

    folder: Path
    ends: list[int]
    numbers: dict[int, int]

    def phase_of(self, step: int) -> int:
        """The phase in which a step is taken."""
        return next(number for number, end in enumerate(self.ends) if step <= end)

    def files(self, phase: int) -> dict[int, Path]:
        """Step within a phase -> file; at the end of a phase its own state is written anyway."""
        begin = self.ends[phase - 1] if phase else 0
        own = (step for step in self.numbers if begin < step < self.ends[phase])
        return {step - begin: self._file(step) for step in own}

    def store(
        self,
        job: dict[str, Any],
        strategy: Strategy,
        journal: Journal,
        tokenizer: "PreTrainedTokenizerFast",
        untrained: Callable[[AdapterSettings | None], tuple["PreTrainedModel", set[str]]],
    ) -> None:
        """Write `checkpoint-<number>/` into the cell's folder, each with a card of its own.

        Parameters
        ----------
        untrained
            Gives the model before training, with adapters where it is told to wear some, and the
            names of the matrices with new rows.
        """
        for old in Path(job["outputs"]["folder"]).glob("checkpoint-*"):
            shutil.rmtree(old)
        tokens = {line["step"]: line["tokens"] for line in journal.lines("step")}
        for step, number in self.numbers.items():
            phase = self.phase_of(step)
            finished = phase + (step == self.ends[phase])
            model, changed = untrained(None if finished else strategy.phases[0].adapter)
            progress = load_progress(self.folder, model, finished)
            adapter: PeftModel | None = None
            if finished == phase:
                settings = strategy.phases[phase]
                names, adapter = prepare(model, settings, new_tokens(job["inputs"]))
                progress.trained |= set(names)
                _put(model, load_file(self._file(step)))
                take_off_all(model, tokenizer, settings, names, progress)
            folder = checkpoint_of(job["outputs"]["folder"], number)
            folder.mkdir(exist_ok=True)
            facts = {"checkpoint": number, "step": step, "tokens": tokens[step]}
            save_cell(folder, model, changed | progress.changed, adapter=adapter, job=job, **facts)

    def _file(self, step: int) -> Path:
        return self.folder / f"kept-{step}.safetensors"


def keep(folder: Path, steps: list[int], checkpoints: int) -> Kept:
    """Which steps of phases of so many `steps` stay as checkpoints, the last one being the end.

    Raises
    ------
    UserError
        There are more checkpoints than steps.
    """
    total = sum(steps)
    if total and checkpoints > total:
        raise UserError(
            f"strategy: {checkpoints} checkpoints of {total} optimizer steps; lower checkpoints, "
            "or train longer"
        )
    ends = [sum(steps[: number + 1]) for number in range(len(steps))]
    inside = range(1, checkpoints if total else 1)
    return Kept(folder, ends, {round(total * n / checkpoints): n for n in inside})


def _put(model: "PreTrainedModel", tensors: dict[str, torch.Tensor]) -> None:
    """Copy trained parameters into a model prepared as theirs was; an extra head is left out."""
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in tensors.items():
            if not name.startswith(f"{EXTRA_HEAD}."):
                parameters[name].copy_(tensor)
