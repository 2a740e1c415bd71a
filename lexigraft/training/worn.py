"""What a model wears in a phase, and what is left when it takes that off: plain matrices."""

from typing import TYPE_CHECKING

from lexigraft.initialization.recipe_pair import RecipePair
from lexigraft.training.adapted_layers import adapters, take_off
from lexigraft.training.checkpoints import Progress
from lexigraft.training.new_rows import take_off_new_rows
from lexigraft.training.settings import Phase
from lexigraft.training.store import own_names

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


def take_off_all(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    phase: Phase,
    names: list[str],
    progress: Progress,
) -> RecipePair | None:
    """Put new rows back, and what VocADT's adapters make of the matrices; LoRA's adapters stay.

    Parameters
    ----------
    names
        What `trainable.prepare` named for the phase.
    progress
        Is told what became of them.

    Returns
    -------
    RecipePair or None
        What VocADT's adapters learned, if the phase trained any.
    """
    if "new-rows" in phase.trainable:
        take_off_new_rows(model)
        progress.by_rows |= matrix_names(model)
    if phase.adapter is None:
        return None
    progress.trained -= set(names)
    progress.adapter_size += sum(p.numel() for worn in adapters(model) for p in worn.parameters())
    recipes = take_off(model, tokenizer)
    progress.made = matrix_names(model)
    return recipes


def matrix_names(model: "PreTrainedModel") -> set[str]:
    """Names of the parameters that have a row for each token."""
    matrices = [model.get_input_embeddings(), model.get_output_embeddings()]
    return own_names(model, [module for module in matrices if module is not None])
