"""The frozen model that others learn from: checked before a training, loaded with a phase."""

from pathlib import Path
from typing import TYPE_CHECKING

from lexigraft.errors import UserError
from lexigraft.source.model import (
    MASKED,
    SourceModel,
    kind_of,
    load_config,
    load_model,
    open_source,
)

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

    from lexigraft.training.objective import PhaseContext


def check_teacher(folder: str | Path, key: str, length: int) -> SourceModel:
    """Check that the source model in a folder can read sequences of a length, and return it.

    Raises a UserError, which names the `key` of the settings, if it predicts masked tokens or its
    context is shorter.
    """
    source = open_source(folder)
    config = load_config(source.folder)
    if kind_of(config) == MASKED:
        raise UserError(
            f"{key}.teacher: {source.name} predicts masked tokens, not the next one; name a causal "
            "language model"
        )
    limit = context_length(config)
    if limit is not None and limit < length:
        raise UserError(
            f"{key}.teacher: {source.name} holds {limit} tokens, and a sequence of its phase has "
            f"{length}; lower the phase's length"
        )
    return source


def context_length(config: "PretrainedConfig") -> int | None:
    """How many tokens a causal model holds; None if its configuration sets no limit."""
    limit: int = getattr(config.get_text_config(), "max_position_embeddings", None) or 0
    return limit if limit > 0 else None


def load_teacher(context: "PhaseContext") -> "PreTrainedModel":
    """The model in the input `teacher`: frozen, in evaluation mode, on this job's device and in the
    precision that it computes in.

    Raises a UserError if the documents of a sequence are to be separate, which it does not support.
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
