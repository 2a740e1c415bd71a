"""The frozen teacher model: checked before training, loaded when a phase begins."""

from pathlib import Path
from typing import TYPE_CHECKING

from lexigraft.errors import UserError
from lexigraft.setting_types import MASKED
from lexigraft.source.model import SourceModel, load_config, load_model, model_kind, open_source
from lexigraft.source.positions import context_length

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from lexigraft.training.objective import PhaseContext


def check_teacher(folder: str | Path, key: str, length: int) -> SourceModel:
    """Check that the source model in a folder can read sequences of a length, and return it.

    Raises a UserError, which begins with the settings `key`, if the model predicts masked tokens or
    its context is shorter.
    """
    source = open_source(folder)
    config = load_config(source.folder)
    if model_kind(config) == MASKED:
        raise UserError(
            f"{key}: {source.name} predicts masked tokens, not the next one; the teacher must be "
            "a causal language model"
        )
    limit = context_length(config)
    if limit is not None and limit < length:
        raise UserError(
            f"{key}: the context of {source.name} is {limit} tokens, but a sequence of its phase "
            f"has {length}; lower the phase's length"
        )
    return source


def load_teacher(context: "PhaseContext") -> "PreTrainedModel":
    """Load the model of the input `teacher`, frozen and in evaluation mode.

    It is on the device and in the precision of this job. Raises a UserError if the documents of a
    sequence must be kept apart and the model does not support this.
    """
    from lexigraft.hardware import device, precision
    from lexigraft.training.compatibility import check_document_separation

    if context.teacher is not None:
        return context.teacher
    folder = open_source(context.inputs["teacher"]).folder
    teacher = load_model(folder, precision(), device()).requires_grad_(False)
    if context.strategy.packing == "apart":
        check_document_separation(teacher)
    return teacher
