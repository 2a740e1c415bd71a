"""Attaches VocADT's adapters to a source model's two matrices, and merges them (VocADT, §3)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.func import functional_call
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.initialization.graft import carry_tables, check_fit, untie
from lexigraft.initialization.recipe import DenseRows, Recipe, RecipePair
from lexigraft.initialization.token_ids import update_special_token_ids
from lexigraft.source.token_tables import (
    has_factored_head,
    resize_vocabulary,
    set_tables,
    token_tables,
)
from lexigraft.training.objective import Objective, PenalizedObjective
from lexigraft.training.settings import AdapterSettings, Phase
from lexigraft.training.vocadt_adapter import Adapter, DenseAdapter, SparseAdapter


def attach_adapters(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    start: Recipe | RecipePair | DenseRows,
    settings: AdapterSettings,
) -> None:
    """Attach an adapter to the input embedding and one to the head, in place.

    The source model, which is not grafted, then reads and predicts the target's tokens, with the
    outputs of a model grafted by `start`. A model with tied matrices also gets two adapters
    (VocADT, §5.2), which, as in grafting, both start from the input's recipe.

    Raises
    ------
    UserError
        `start` is not a recipe over source rows alone, is for another model or tokenizer, or the
        model's head is not a linear layer.
    """
    if isinstance(start, DenseRows):
        raise UserError(
            "trainable: an adapter needs a recipe to start from, but these rows are drawn at "
            "random or projected; choose an initializer such as mean or vocadt-start"
        )
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    if not isinstance(embeddings, torch.nn.Embedding) or not isinstance(head, torch.nn.Linear):
        raise UserError(
            f"trainable: the matrices of {type(model).__name__} are not a plain embedding and a "
            "linear head, which an adapter needs"
        )
    check_fit(embeddings.num_embeddings, tokenizer, start)
    if has_factored_head(model):
        raise UserError(
            f"trainable: the head of {type(model).__name__} has more than one matrix, and an "
            "adapter needs a plain linear head; train embeddings and head instead"
        )
    # Tables of further embeddings get no adapters.
    set_tables(model, carry_tables(model, token_tables(model), start))
    tied = head.weight is embeddings.weight
    recipes = [start.recipe("input"), start.recipe("input" if tied else "output")]
    if not all(recipe.is_linear for recipe in recipes):
        raise UserError(
            "trainable: an adapter cannot start from rows of reduced rank or with a changed norm; "
            "choose an initializer that keeps all dimensions, such as ofa-none, without source_norm"
        )
    form: type[Adapter] = SparseAdapter if settings.form == "sparse" else DenseAdapter
    place = embeddings.weight.device
    own, of_head = (form(recipe, settings.entries).to(place) for recipe in recipes)
    _replace_module(model, embeddings, AdaptedEmbedding(embeddings, own, start.source_of))
    _replace_module(model, head, AdaptedHead(head, of_head))


def attached_adapters(model: PreTrainedModel) -> list[Adapter]:
    """The adapters of a model: of the input embedding and of the head."""
    layers: list[Any] = [model.get_input_embeddings(), model.get_output_embeddings()]
    return [layer.adapter for layer in layers]


def with_auxiliary_loss(objective: Objective, model: PreTrainedModel, phase: Phase) -> Objective:
    """The objective of a phase, plus the auxiliary loss of the adapters that it trains."""
    if phase.adapter is None or not phase.adapter.alpha:
        return objective
    return WithAuxiliaryLoss(objective, attached_adapters(model), phase.adapter.alpha)


def merge_adapters(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> RecipePair:
    """Merge the adapters into plain matrices `E_n = A E_o`, in place (VocADT, §3.1).

    The model then has the source's architecture and the target's vocabulary; tied matrices become
    untied. Returns the adapters as recipes. Rows that training has not changed still count as
    copies; a row that is not a copy in one of them is new in both.
    """
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    assert isinstance(embeddings, AdaptedEmbedding) and isinstance(head, AdaptedHead)
    both, bias = (embeddings, head), head.old.bias
    matrices = [layer.adapter.merged(layer.old.weight) for layer in both]
    new_bias = None if bias is None else head.adapter.merged(bias[:, None])[:, 0]
    recipes = [layer.adapter.recipe() for layer in both]
    new_ids = np.flatnonzero(np.minimum(*(recipe.copied for recipe in recipes)) < 0)
    embeddings.old.padding_idx = embeddings.padding_idx
    for layer in both:
        _replace_module(model, layer, layer.old)
    untie(model)
    resize_vocabulary(model, len(matrices[0]))
    layers: list[Any] = [model.get_input_embeddings(), model.get_output_embeddings()]
    with torch.no_grad():
        for plain, rows in zip(layers, matrices, strict=True):
            plain.weight.copy_(rows)
        if new_bias is not None:
            layers[1].bias.copy_(new_bias)
    update_special_token_ids(model, tokenizer, embeddings.source_of)
    return RecipePair(*(replace(recipe, new_ids=new_ids) for recipe in recipes))


class WithAuxiliaryLoss(PenalizedObjective):
    """Another objective plus alpha times Eq. 4 of each adapter (VocADT, §3.3).

    It keeps the adapters' rows of shared tokens close to their initial values. The paper has Eq. 4
    for one adapter; here those of input and head are added, so that each adapter is held as Eq. 4
    holds one. In the training log, `aux_loss` includes the factor alpha, so that the parts add up
    to the loss.
    """

    penalty_name = "aux_loss"

    def __init__(self, objective: Objective, adapters: Sequence[Adapter], alpha: float):
        super().__init__(objective)
        self.adapters, self.alpha = list(adapters), alpha

    def penalty(self, model: PreTrainedModel) -> torch.Tensor:
        """The auxiliary loss."""
        return self.alpha * torch.stack([adapter.drift() for adapter in self.adapters]).sum()


class AdaptedEmbedding(torch.nn.Module):
    """Looks up rows of `A E`, computed only for the tokens of a batch; E [n_source, h] is `old`.

    `source_of` [n_target] is the source row that each token copied at the start, -1 for new tokens.
    """

    def __init__(self, old: torch.nn.Embedding, adapter: Adapter, source_of: np.ndarray):
        super().__init__()
        self.old, self.adapter, self.source_of = old, adapter, source_of
        # Its row gets no gradient; in `forward`, this index would be another token of the batch.
        self.padding_idx, old.padding_idx = old.padding_idx, None

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows [..., h] of target ids, as the source's embedding returns its own.

        Some architectures scale embeddings, so the source's embedding is called, with the rows of
        the batch as its matrix.
        """
        distinct, place = ids.unique(return_inverse=True)
        rows = self.adapter.rows(distinct, self.old.weight)
        return functional_call(self.old, {"weight": rows}, (place,))


class AdaptedHead(torch.nn.Module):
    """Logits over the target's tokens, `(h E^T + b) A^T`; E [n_source, h] and b are `old`'s."""

    def __init__(self, old: torch.nn.Linear, adapter: Adapter):
        super().__init__()
        self.old, self.adapter = old, adapter

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [..., n_target] of hidden states [..., h]."""
        return self.adapter.logits(hidden, self.old)


def _replace_module(model: torch.nn.Module, old: torch.nn.Module, new: torch.nn.Module) -> None:
    """Replace a module by another one wherever it occurs in a model."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if child is old:
                setattr(parent, name, new)
