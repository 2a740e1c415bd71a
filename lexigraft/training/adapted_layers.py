"""A source model that wears VocADT's adapters around its two matrices, and takes them off again."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.func import functional_call

from lexigraft.errors import UserError
from lexigraft.initialization.dense_rows import DenseRows
from lexigraft.initialization.graft import check_fit
from lexigraft.initialization.model_configuration import untie, update_special_token_ids
from lexigraft.initialization.recipe import Recipe
from lexigraft.initialization.recipe_pair import RecipePair
from lexigraft.training.adapter import Adapter, DenseAdapter, SparseAdapter
from lexigraft.training.settings import AdapterSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

_FORMS: dict[str, type[Adapter]] = {"dense": DenseAdapter, "sparse": SparseAdapter}


def wear(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    start: Recipe | RecipePair | DenseRows,
    settings: AdapterSettings,
) -> None:
    """Put an adapter around the input embedding and one around the head, in place.

    The model then reads and predicts the target's tokens, and computes what it would if it were
    grafted by `start`. The adapters are two also where the model's matrices are tied (paper 001,
    section 5.2).

    Parameters
    ----------
    model
        The source model, not grafted.
    tokenizer
        The target tokenizer.
    start
        What the adapters start from. As in grafting, a tied model takes the input's recipe twice.

    Raises
    ------
    UserError
        `start` is no recipe over source rows alone, was made for another model or tokenizer, or the
        model's head is not a linear layer.
    """
    if isinstance(start, DenseRows):
        raise UserError(
            "trainable: an adapter needs a recipe to start from, and these rows are drawn or "
            "projected; choose an initializer such as mean or vocadt-start"
        )
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    if not isinstance(embeddings, torch.nn.Embedding) or not isinstance(head, torch.nn.Linear):
        raise UserError(
            f"trainable: the matrices of {type(model).__name__} are no plain embedding and linear "
            "head, which an adapter needs"
        )
    check_fit(embeddings.num_embeddings, tokenizer, start)
    tied = head.weight is embeddings.weight
    pair = start if isinstance(start, RecipePair) else RecipePair(start, start)
    recipes = [pair.input, pair.input if tied else pair.output]
    if any(recipe.rank is not None for recipe in recipes):
        raise UserError(
            "trainable: an adapter cannot start from rows of reduced rank; choose an initializer "
            "that keeps all dimensions, such as ofa-none"
        )
    made = [_FORMS[settings.form](recipe, settings.entries) for recipe in recipes]
    place = embeddings.weight.device
    _exchange(model, embeddings, AdaptedEmbedding(embeddings, made[0].to(place), pair.source_of))
    _exchange(model, head, AdaptedHead(head, made[1].to(place)))


def adapters(model: "PreTrainedModel") -> list[Adapter]:
    """The adapters that a model wears: of the input embedding and of the head."""
    layers: list[Any] = [model.get_input_embeddings(), model.get_output_embeddings()]
    return [layer.adapter for layer in layers]


def take_off(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast") -> RecipePair:
    """Merge the adapters into plain matrices `E_n = A E_o`, in place (paper 001, section 3.1).

    The model is then of the source's architecture with the target's vocabulary; tied matrices come
    apart.

    Returns
    -------
    RecipePair
        The adapters as recipes. Rows that no training touched still count as copies.
    """
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    assert isinstance(embeddings, AdaptedEmbedding) and isinstance(head, AdaptedHead)
    old, old_head = embeddings.old, head.old
    new_input = embeddings.adapter.merged(old.weight)
    new_output = head.adapter.merged(old_head.weight)
    bias = old_head.bias
    new_bias = None if bias is None else head.adapter.merged(bias[:, None])[:, 0]
    recipes = _recipes(embeddings.adapter, head.adapter)
    old.padding_idx = embeddings.padding_idx
    _exchange(model, embeddings, old)
    _exchange(model, head, old_head)
    untie(model)
    # Its own mean_resizing computes rows that are replaced right here.
    model.resize_token_embeddings(len(new_input), mean_resizing=False)
    layers: list[Any] = [model.get_input_embeddings(), model.get_output_embeddings()]
    with torch.no_grad():
        for layer, rows in zip(layers, (new_input, new_output), strict=True):
            layer.weight.copy_(rows)
        if new_bias is not None:
            layers[1].bias.copy_(new_bias)
    update_special_token_ids(model, tokenizer, embeddings.source_of)
    return recipes


class AdaptedEmbedding(torch.nn.Module):
    """Looks up rows of `A E`: of the tokens of a batch, and of no others.

    Parameters
    ----------
    old
        The source's embedding [n_source, h].
    adapter
        Of the input.
    source_of
        [n_target]: the source row that each token copied at the start, -1 for new tokens.
    """

    def __init__(self, old: torch.nn.Embedding, adapter: Adapter, source_of: np.ndarray):
        super().__init__()
        self.old, self.adapter, self.source_of = old, adapter, source_of
        # A row of this number is kept from learning; below, it would be some token of a batch.
        self.padding_idx, old.padding_idx = old.padding_idx, None

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows [..., h] of target ids, as the source's embedding returns its own.

        Some architectures scale what they look up, so the embedding itself is called, with the
        rows that the batch needs for its matrix.
        """
        distinct, place = ids.unique(return_inverse=True)
        rows = self.adapter.rows(distinct, self.old.weight)
        return functional_call(self.old, {"weight": rows}, (place,))


class AdaptedHead(torch.nn.Module):
    """Logits over the target's tokens out of those over the source's, `(h E^T + b) A^T`."""

    def __init__(self, old: torch.nn.Linear, adapter: Adapter):
        super().__init__()
        self.old, self.adapter = old, adapter

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [..., n_target] of hidden states [..., h]."""
        return self.adapter.logits(self.old(hidden))


def _exchange(model: torch.nn.Module, old: torch.nn.Module, new: torch.nn.Module) -> None:
    """Put one module where another one is, wherever an architecture keeps it."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if child is old:
                setattr(parent, name, new)


def _recipes(*made: Adapter) -> RecipePair:
    """Both adapters as recipes, in which all rows are new that are no copies in either."""
    recipes = [adapter.recipe() for adapter in made]
    copied = np.minimum(*(recipe.copied for recipe in recipes))
    new_ids = np.flatnonzero(copied < 0)
    return RecipePair(*(replace(recipe, new_ids=new_ids) for recipe in recipes))
