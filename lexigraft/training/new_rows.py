"""Trains only the rows of new tokens, as separate parameters next to frozen matrices.

Torch has no matrix in which only some rows require a gradient, and PEFT's trainable tokens build a
full matrix of old and new rows in each forward pass, and its gradient in each backward pass. Here
the model computes with its own matrices, into which the new rows are copied before each use, and
only the gradient of these rows is computed.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.func import functional_call
from transformers import PreTrainedModel

from lexigraft.errors import UserError
from lexigraft.source.token_tables import has_factored_head

NEW_ROWS = ("new_rows", "new_bias")  # names that models do not use for parameters


def attach_new_rows(model: PreTrainedModel, ids: Sequence[int]) -> None:
    """Attach parameters for the rows of the tokens `ids` to a frozen model, in place.

    Tied matrices share them. The entries of these tokens in a head's bias are trained too. The
    model's outputs do not change, and every parameter keeps its name.

    Raises
    ------
    UserError
        There are no such tokens, or a matrix of the model is not a plain embedding or linear layer.
    """
    if not len(ids):
        raise UserError(
            "trainable: new-rows needs a vocabulary with new tokens, but this cell has none; give "
            "it a vocabulary and an initializer, or train embeddings and head"
        )
    # transformers types its layers as plain modules, without the weights that they have.
    embeddings: Any = model.get_input_embeddings()
    head: Any = model.get_output_embeddings()
    is_linear = getattr(type(head), "forward", None) is torch.nn.Linear.forward
    is_embedding = isinstance(embeddings, torch.nn.Embedding)
    if not is_embedding or not is_linear or has_factored_head(model):
        raise UserError(
            f"trainable: the matrices of {type(model).__name__} are not an embedding and a plain "
            "linear head, which new-rows needs; train embeddings and head"
        )
    order, padding = sorted(map(int, ids)), embeddings.padding_idx
    places = torch.tensor(order, device=embeddings.weight.device)
    rows = torch.nn.Parameter(embeddings.weight.detach()[places])
    _attach(embeddings, _NewEmbeddingRows, places, rows)
    # The row of padding gets no gradient: where it is new, it has another index among new rows.
    embeddings.source_padding = padding  # type: ignore[assignment]  # typed as a plain module
    embeddings.padding_idx = order.index(padding) if padding in order else None
    if head.weight is not embeddings.weight:
        rows = torch.nn.Parameter(head.weight.detach()[places])
    _attach(head, _NewHeadRows, places, rows)
    if head.bias is not None:
        head.new_bias = torch.nn.Parameter(head.bias.detach()[places])


def merge_new_rows(model: PreTrainedModel) -> None:
    """Write the rows into the model's own matrices and remove the attached parameters."""
    attached: list[Any] = [one for one in model.modules() if isinstance(one, _NewRows)]
    for module in attached:
        module.write_rows()
        if hasattr(module, "source_padding"):
            module.padding_idx = module.source_padding
            del module.source_padding
        for name in NEW_ROWS:
            if hasattr(module, name):
                delattr(module, name)
        del module.places
        module.__class__ = type(module).__bases__[1]  # the model's own


class _NewRows:
    """A layer with attached parameters for some rows of its matrix."""

    weight: torch.nn.Parameter
    bias: torch.nn.Parameter | None
    new_rows: torch.nn.Parameter
    new_bias: torch.nn.Parameter
    places: torch.Tensor  # [n]: the rows' token ids, ascending

    def write_rows(self) -> None:
        """Copy the rows into the matrix."""
        # `data` bypasses autograd's version counter: no gradient needs the old rows.
        self.weight.data.index_copy_(0, self.places, self.new_rows.data)
        if hasattr(self, "new_bias") and self.bias is not None:
            self.bias.data.index_copy_(0, self.places, self.new_bias.data)


class _NewEmbeddingRows(_NewRows):
    def forward(self, tokens: torch.Tensor, *, only_own: bool = False) -> torch.Tensor:
        embed = super().forward  # type: ignore[misc]  # subclasses also inherit an embedding
        if only_own:
            return embed(tokens)
        self.write_rows()
        at = torch.searchsorted(self.places, tokens).clamp(max=len(self.places) - 1)
        # Some architectures scale or normalize what they look up, so their layer is called, with
        # the new rows as its matrix.
        layer: Any = self
        own = functional_call(layer, {"weight": self.new_rows}, (at,), {"only_own": True})
        # Not only for new tokens: how many these are would have to be read from the GPU.
        return torch.where((self.places[at] == tokens)[..., None], own, embed(tokens))


class _NewHeadRows(_NewRows):
    def forward(self, states: torch.Tensor) -> torch.Tensor:
        self.write_rows()
        logits = super().forward(states)  # type: ignore[misc]  # subclasses also inherit Linear
        bias = getattr(self, "new_bias", None)
        return _HeadGradient.apply(logits, states, self.places, self.new_rows, bias)


class _HeadGradient(torch.autograd.Function):
    """Gives new rows the gradient of logits that were computed with the full matrix."""

    @staticmethod
    def forward(context, logits, states, places, rows, bias):
        context.save_for_backward(states, places)
        context.has_bias = bias is not None
        return logits.view_as(logits)

    @staticmethod
    def backward(context, gradient):
        states, places = context.saved_tensors
        own = gradient.flatten(0, -2).index_select(-1, places)  # [positions, n]
        rows = own.T @ states.flatten(0, -2).to(own.dtype)
        bias = own.float().sum(0) if context.has_bias else None
        return gradient, None, None, rows.float(), bias


def _attach(module: Any, kind: type[_NewRows], places: torch.Tensor, rows: Any) -> None:
    # A subclass is still an embedding or a linear layer to `isinstance`.
    module.__class__ = type(f"New{type(module).__name__}", (kind, type(module)), {})
    module.register_buffer("places", places, persistent=False)
    module.new_rows = rows
