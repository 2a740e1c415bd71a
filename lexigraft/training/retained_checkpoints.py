"""Checkpoints that are stored with a cell: taken at equal distances, and scored like cells."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file

from lexigraft.errors import UserError
from lexigraft.training.checkpointing import load_progress
from lexigraft.training.new_rows import new_tokens
from lexigraft.training.objectives.mtp import EXTRA_HEAD
from lexigraft.training.settings import AdapterSettings, Strategy
from lexigraft.training.store import retained_checkpoint_folder, save_cell
from lexigraft.training.trainable import finish_phase, prepare_phase
from lexigraft.training.training_log import TrainingLog

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True)
class RetainedCheckpoints:
    """After which optimizer steps a checkpoint is retained, and the files of its parameters.

    During training, the files hold trained parameters as in their phase, adapters separate; they
    become cells when training has finished.

    Attributes
    ----------
    folder
        Of the job's checkpoints while it trains.
    ends
        Optimizer steps of the whole training at the end of each phase.
    numbers
        Optimizer step -> number of the checkpoint, from 1. The last one is the trained cell itself
        and not included.
    """

    folder: Path
    ends: list[int]
    numbers: dict[int, int]

    @classmethod
    def plan(cls, folder: Path, steps: list[int], checkpoints: int) -> "RetainedCheckpoints":
        """Choose the steps at equal distances, the last checkpoint being the end.

        Parameters
        ----------
        steps
            Optimizer steps of each phase.

        Raises
        ------
        UserError
            There are more checkpoints than steps.
        """
        total = sum(steps)
        if total and checkpoints > total:
            raise UserError(
                f"strategy: {checkpoints} checkpoints of {total} optimizer steps; lower "
                "checkpoints, or train longer"
            )
        ends = [sum(steps[: number + 1]) for number in range(len(steps))]
        inside = range(1, checkpoints if total else 1)
        return cls(folder, ends, {round(total * n / checkpoints): n for n in inside})

    def phase_of(self, step: int) -> int:
        """The phase that a step is part of."""
        return next(number for number, end in enumerate(self.ends) if step <= end)

    def files(self, phase: int) -> dict[int, Path]:
        """Step within a phase -> file; the state at the end of a phase has a file anyway."""
        begin = self.ends[phase - 1] if phase else 0
        own = (step for step in self.numbers if begin < step < self.ends[phase])
        return {step - begin: self._file(step) for step in own}

    def store(
        self,
        job: dict[str, Any],
        strategy: Strategy,
        training_log: TrainingLog,
        tokenizer: "PreTrainedTokenizerFast",
        load_untrained: Callable[[AdapterSettings | None], tuple["PreTrainedModel", set[str]]],
    ) -> None:
        """Write `checkpoint-<number>/` into the cell's folder, each with a card of its own.

        Parameters
        ----------
        load_untrained
            Returns the model before training, with VocADT's adapters if settings of them are
            passed, and the names of the matrices with new rows.
        """
        for old in Path(job["outputs"]["folder"]).glob("checkpoint-*"):
            shutil.rmtree(old)
        tokens = {line["step"]: line["tokens"] for line in training_log.lines("step")}
        for step, number in self.numbers.items():
            phase = self.phase_of(step)
            finished = phase + (step == self.ends[phase])
            model, changed = load_untrained(None if finished else strategy.phases[0].adapter)
            progress = load_progress(self.folder, model, finished)
            adapter: PeftModel | None = None
            if finished == phase:
                settings = strategy.phases[phase]
                names, adapter = prepare_phase(model, settings, new_tokens(job["inputs"]))
                progress.trained |= set(names)
                _load_trained(model, load_file(self._file(step)))
                finish_phase(model, tokenizer, settings, names, progress)
            folder = retained_checkpoint_folder(job["outputs"]["folder"], number)
            folder.mkdir(exist_ok=True)
            facts = {"checkpoint": number, "step": step, "tokens": tokens[step]}
            save_cell(folder, model, changed | progress.changed, adapter=adapter, job=job, **facts)

    def _file(self, step: int) -> Path:
        return self.folder / f"retained-{step}.safetensors"


def _load_trained(model: "PreTrainedModel", tensors: dict[str, torch.Tensor]) -> None:
    """Copy trained parameters into a model prepared for their phase; an extra head is left out."""
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in tensors.items():
            if not name.startswith(f"{EXTRA_HEAD}."):
                parameters[name].copy_(tensor)
