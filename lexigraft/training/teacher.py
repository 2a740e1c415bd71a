"""The model that a distilled one learns from: a causal source model with the same vocabulary."""

from pathlib import Path
from typing import TYPE_CHECKING

from lexigraft.errors import UserError
from lexigraft.hardware import device, precision
from lexigraft.source.kind import MASKED, kind_of
from lexigraft.source.model import load_config, load_model, load_tokenizer, open_source
from lexigraft.training.settings import Strategy

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


def check_teacher(
    folder: str | Path, tokenizer: "PreTrainedTokenizerFast", strategy: Strategy
) -> None:
    """Check, before anything is trained, that a source model can teach.

    What the teacher's vocabulary has beyond the cell's, such as special tokens of its own or
    padding rows, takes no part.

    Parameters
    ----------
    folder
        The teacher under `results/source/`.
    tokenizer
        Of the model that learns.
    strategy
        Its phases say how long the sequences are that the teacher reads.

    Raises
    ------
    UserError
        It gives a token of the tokenizer another id, holds fewer tokens than a sequence has, or
        predicts masked tokens.
    """
    source = open_source(folder)
    config = load_config(source.folder)
    if kind_of(config) == MASKED:
        raise UserError(
            f"distill.teacher: {source.name} predicts masked tokens, not the next one; name a "
            "causal language model"
        )
    length = max(phase.length for phase in strategy.phases if phase.distill)
    limit = getattr(config.get_text_config(), "max_position_embeddings", None)
    if limit is not None and limit < length:
        raise UserError(
            f"distill.teacher: {source.name} holds {limit} tokens, and a sequence of its phase has "
            f"{length}; lower the phase's length"
        )
    _check_vocabulary(source.name, load_tokenizer(source.folder).get_vocab(), tokenizer)


def load_teacher(folder: str | Path) -> "PreTrainedModel":
    """The teacher in evaluation mode and frozen, on this job's device and in its precision.

    Parameters
    ----------
    folder
        Under `results/source/`.
    """
    teacher = load_model(open_source(folder).folder, precision()).requires_grad_(False)
    teacher.to(device())  # type: ignore[arg-type]  # a decorator hides that it is a method
    return teacher


def _check_vocabulary(
    name: str, theirs: dict[str, int], tokenizer: "PreTrainedTokenizerFast"
) -> None:
    for token, number in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        if theirs.get(token) != number:
            there = f"gives id {theirs[token]} to" if token in theirs else "lacks"
            raise UserError(
                f"distill.teacher: {name} {there} the cell's token {token!r} with id {number}; "
                "name a teacher that has the cell's vocabulary, or let the cell take the teacher's "
                "(vocabularies.yaml, `tokenizer`)"
            )
