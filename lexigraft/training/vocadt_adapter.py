"""VocADT's adapters: recipes whose weights are trained (VocADT, §3).

They are attached to the two matrices of a source model, and merged into plain matrices afterwards.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array, vstack
from torch.autograd.function import once_differentiable
from torch.func import functional_call
from torch.nn.functional import embedding_bag, linear
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.initialization.graft import carry_tables, check_fit, untie
from lexigraft.initialization.matrix import blocks
from lexigraft.initialization.recipe import DenseRows, Recipe, RecipePair
from lexigraft.initialization.token_ids import update_special_token_ids
from lexigraft.source.token_tables import (
    has_factored_head,
    resize_vocabulary,
    set_tables,
    token_tables,
)
from lexigraft.training.objective import Objective
from lexigraft.training.settings import AdapterSettings, Phase

_NONE = np.empty(0, dtype=np.int64)


class Adapter(torch.nn.Module, ABC):
    """The trained recipe `A` [n_target, n_source] of one matrix.

    `start` is the initial recipe (Eqs. 1 to 3, or any other); `entries` is the maximum number of
    weights per row in the resulting recipe, and the sparse form trains no others.
    """

    def __init__(self, start: Recipe, entries: int):
        super().__init__()
        self.entries = entries
        self.n_target, self.n_source = start.n_target, start.n_source

    @abstractmethod
    def rows(self, ids: torch.Tensor | None, table: torch.Tensor) -> torch.Tensor:
        """`A[ids] @ table`, or all rows: [len(ids), h] of a source matrix [n_source, h]."""

    @abstractmethod
    def distances(self) -> torch.Tensor:
        """The distance of each shared token's row from its initial value."""

    @abstractmethod
    def recipe(self) -> Recipe:
        """The current `A`, with the `entries` largest weights per row; no token counts as new."""

    def logits(self, hidden: torch.Tensor, head: torch.nn.Linear) -> torch.Tensor:
        """`(hidden @ E^T + b) @ A^T`: logits [..., n_target] of hidden states [..., h].

        They are computed from the logits of the source's `head` or from the matrix `A E`, whichever
        needs fewer multiplications: the former for few positions, as in generation.
        """
        size, positions = hidden.shape[-1], hidden.shape[:-1].numel()
        weights = sum(parameter.numel() for parameter in self.parameters())
        through_source = positions * (self.n_source * size + weights)
        if through_source < size * (weights + self.n_target * positions):
            logits = head(hidden).flatten(0, -2)
            return self.rows(None, logits.T).T.unflatten(0, hidden.shape[:-1])
        bias = None if head.bias is None else self.rows(None, head.bias[:, None])[:, 0]
        return linear(hidden, self.rows(None, head.weight), bias)

    def drift(self) -> torch.Tensor:
        """The mean distance of the rows of shared tokens from their initial values (Eq. 4)."""
        distances = self.distances()
        return distances.sum() / max(1, len(distances))

    def merged(self, matrix: torch.Tensor) -> torch.Tensor:
        """The target matrix `A @ matrix` [n_target, h] (§3.1)."""
        out = matrix.new_empty((self.n_target, matrix.shape[1]))
        with torch.no_grad():
            for block in blocks(self.n_target, max(self.n_source, matrix.shape[1])):
                ids = torch.arange(block.start, block.stop, device=matrix.device)
                out[block] = self.rows(ids, matrix)
        return out


class DenseAdapter(Adapter):
    """All n_target x n_source weights are trained, as in the paper."""

    def __init__(self, start: Recipe, entries: int):
        super().__init__(start, entries)
        weights = torch.empty(start.n_target, start.n_source)
        for block in blocks(start.n_target, start.n_source):
            rows = start.rows(np.arange(block.start, block.stop)).toarray()
            weights[block] = torch.from_numpy(rows)
        self.weights = torch.nn.Parameter(weights)
        shared = np.flatnonzero(start.source_of >= 0)
        self.shared, self.copied = _buffer(shared), _buffer(start.source_of[shared])

    def rows(self, ids, table):
        """Under autocast, all rows are bfloat16; of single ones only the weights' gradient is."""
        if ids is None:
            return self.weights @ table
        kind = table.device.type
        lower = torch.is_autocast_enabled(kind)
        dtype = torch.get_autocast_dtype(kind) if lower else table.dtype
        with torch.autocast(kind, enabled=False):
            return _Rows.apply(self.weights, ids, table, dtype)

    def distances(self):
        """See `Adapter`."""
        return _FromOneHot.apply(self.weights, self.shared, self.copied)

    def recipe(self):
        """See `Adapter`."""
        parts, entries = [], min(self.entries, self.n_source)
        with torch.no_grad():
            for block in blocks(self.n_target, self.n_source):
                rows = self.weights[block].double()
                largest = rows.abs().topk(entries, dim=1, sorted=False).indices
                data, columns = rows.gather(1, largest).cpu().numpy(), largest.cpu().numpy()
                starts = np.arange(len(data) + 1) * entries
                shape = (len(data), self.n_source)
                parts.append(csr_array((data.ravel(), columns.ravel(), starts), shape=shape))
        left = csr_array(vstack(parts, format="csr"))
        left.eliminate_zeros()
        left.sort_indices()
        return Recipe(left, None, _NONE)


class _Rows(torch.autograd.Function):
    """`weights[ids] @ table`, in blocks: without a copy of these weights or of their gradient.

    The gradient's blocks are computed in `dtype`; `table` gets none.
    """

    @staticmethod
    def forward(context, weights, ids, table, dtype):
        context.save_for_backward(ids, table)
        context.shape, context.dtype = weights.shape, dtype
        rows = table.new_zeros(len(ids), table.shape[1])
        for block in blocks(len(table), len(ids)):
            rows.addmm_(weights[:, block][ids], table[block])
        return rows

    @staticmethod
    @once_differentiable
    def backward(context, upstream):
        ids, table = context.saved_tensors
        gradient, upstream = upstream.new_zeros(context.shape), upstream.to(context.dtype)
        for block in blocks(len(table), len(ids)):
            part = upstream @ table[block].to(context.dtype).t()
            gradient[:, block].index_add_(0, ids, part.to(gradient.dtype))
        return gradient, None, None, None


class _FromOneHot(torch.autograd.Function):
    """Distances of rows of a matrix [n, m] from one-hot rows, without copying the rows."""

    @staticmethod
    def forward(ctx, matrix, ids, columns):
        distances = matrix.new_empty(len(ids))
        for block in blocks(len(ids), matrix.shape[1]):
            distances[block] = _difference(matrix, ids[block], columns[block]).norm(dim=1)
        ctx.save_for_backward(matrix, ids, columns, distances)
        return distances

    @staticmethod
    def backward(ctx, gradient):
        matrix, ids, columns, distances = ctx.saved_tensors
        # At distance zero, the gradient is zero, as for torch's norm.
        scale = torch.where(distances > 0, gradient / distances, 0)
        out = torch.zeros_like(matrix)
        for block in blocks(len(ids), matrix.shape[1]):
            difference = _difference(matrix, ids[block], columns[block])
            out[ids[block]] = difference * scale[block, None]
        return out, None, None


def _difference(matrix: torch.Tensor, ids: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Rows `ids` of a matrix minus one-hot rows at `columns`, [len(ids), m]."""
    rows = matrix[ids]
    rows[torch.arange(len(ids), device=ids.device), columns] -= 1
    return rows


class SparseAdapter(Adapter):
    """Only some weights of each row are trained, all others stay zero. Not in the paper.

    The trained weights are those of the largest magnitude in the initial row; if the row has no
    negative weight, they are scaled to the sum of all. If a row includes the mean of all source
    tokens, this mean counts as another source token with a single weight.
    """

    def __init__(self, start: Recipe, entries: int):
        super().__init__(start, entries)
        left, self.right = largest_weights(start.left, entries), start.right
        self.width = left.shape[1]
        self.values = torch.nn.Parameter(torch.from_numpy(left.data.astype(np.float32)))
        used, columns = np.unique(left.indices.astype(np.int64), return_inverse=True)
        self.used, self.columns = _buffer(used), _buffer(columns)  # `columns` index `used`
        self.starts = _buffer(left.indptr.astype(np.int64))
        # Source rows come first, then what they are bundled into (`recipe.assemble_recipe`).
        self.used_source = _buffer(used[used < self.n_source])
        right = start.right
        bundled = None if right is None else right[used[used >= self.n_source]].toarray()
        self.bundled = None if bundled is None else _buffer(bundled.astype(np.float32))
        # A shared token's row has a single weight, which is 1.
        self.shared = _buffer(left.indptr[np.flatnonzero(start.source_of >= 0)].astype(np.int64))

    def rows(self, ids, table):
        """In float32, also under autocast."""
        with torch.autocast(table.device.type, enabled=False):
            rows = table[self.used_source].to(self.values.dtype)
            if self.bundled is not None:
                rows = torch.cat([rows, self.bundled @ table.to(self.values.dtype)])
            columns, starts, values = self.columns, self.starts, self.values
            if ids is not None:
                begin = starts[ids]
                lengths = starts[ids + 1] - begin
                ends = lengths.cumsum(0)
                shift = (begin - (ends - lengths)).repeat_interleave(lengths)
                entries = torch.arange(len(shift), device=shift.device) + shift
                columns, values = columns[entries], values[entries]
                starts = torch.cat([ends.new_zeros(1), ends])
            # A weighted sum of rows of the table for each bag, without intermediate tensors.
            return embedding_bag(
                columns,
                rows.contiguous(),
                starts,
                per_sample_weights=values,
                mode="sum",
                include_last_offset=True,
            )

    def distances(self):
        """See `Adapter`."""
        return (self.values[self.shared] - 1).abs()

    def recipe(self):
        """See `Adapter`."""
        values = self.values.detach().double().cpu().numpy()
        columns, starts = self.used[self.columns].cpu().numpy(), self.starts.cpu().numpy()
        left = csr_array((values, columns, starts), shape=(self.n_target, self.width))
        return Recipe(left, self.right, _NONE)


def largest_weights(matrix: csr_array, entries: int) -> csr_array:
    """Keep the `entries` stored weights of the largest magnitude in each row; first ones on ties.

    If a row has no negative weight, the remaining ones are scaled to the sum of all.
    """
    starts, data = matrix.indptr, matrix.data.copy()
    kept = np.ones(len(data), dtype=bool)
    for row in np.flatnonzero(np.diff(starts) > entries):
        values = data[starts[row] : starts[row + 1]]
        smallest = np.argsort(-np.abs(values), kind="stable")[entries:]
        kept[starts[row] + smallest] = False
        remaining = values.sum() - values[smallest].sum()
        if values.min() >= 0 and remaining > 0:
            values *= values.sum() / remaining
    ends = np.cumsum(np.minimum(np.diff(starts), entries))
    parts = data[kept], matrix.indices[kept], np.concatenate([[0], ends])
    return csr_array(parts, shape=matrix.shape)


def _buffer(values: np.ndarray) -> torch.Tensor:
    return torch.nn.Buffer(torch.from_numpy(values), persistent=False)


def attach_adapters(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    start: Recipe | RecipePair | DenseRows,
    settings: AdapterSettings,
) -> None:
    """Attach an adapter to the input embedding and one to the head, in place.

    The source model, which is not grafted, then has the outputs of a model grafted by `start`. A
    model with tied matrices also gets two adapters (VocADT, §5.2), which both start from the
    input's recipe. Raises a UserError if `start` is no recipe over source rows alone, or does not
    fit the model or the tokenizer.
    """
    if isinstance(start, DenseRows):
        raise UserError(
            "trainable: an adapter needs a recipe to start from, but these rows are drawn at "
            "random or projected; choose an initializer such as mean or vocadt-start"
        )
    embeddings: Any = model.get_input_embeddings()
    head: Any = model.get_output_embeddings()
    is_plain = isinstance(embeddings, torch.nn.Embedding) and isinstance(head, torch.nn.Linear)
    if not is_plain or has_factored_head(model):
        raise UserError(
            f"trainable: the matrices of {type(model).__name__} are not a plain embedding and a "
            "linear head, which an adapter needs; train embeddings and head instead"
        )
    check_fit(embeddings.num_embeddings, tokenizer, start)
    # Tables of further embeddings get no adapters.
    set_tables(model, carry_tables(model, token_tables(model), start))
    tied = head.weight is embeddings.weight
    recipes = [start.recipe("input"), start.recipe("input" if tied else "output")]
    if not all(recipe.is_linear for recipe in recipes):
        raise UserError(
            "trainable: an adapter cannot start from rows of reduced rank, with a changed norm or "
            "random ones; choose an initializer such as ofa-none, with 'without_vector: pieces'"
        )
    form: type[Adapter] = SparseAdapter if settings.form == "sparse" else DenseAdapter
    device = embeddings.weight.device
    input_adapter, head_adapter = (form(recipe, settings.entries).to(device) for recipe in recipes)
    _replace_module(model, embeddings, AdaptedEmbedding(embeddings, input_adapter, start.source_of))
    _replace_module(model, head, AdaptedHead(head, head_adapter))


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
    """Merge the adapters into plain, untied matrices `E_n = A E_o`, in place (VocADT, §3.1).

    Returns the adapters as recipes, in which rows that training has not changed count as copies.
    """
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    assert isinstance(embeddings, AdaptedEmbedding) and isinstance(head, AdaptedHead)
    layers_with_adapters, bias = (embeddings, head), head.old.bias
    matrices = [layer.adapter.merged(layer.old.weight) for layer in layers_with_adapters]
    new_bias = None if bias is None else head.adapter.merged(bias[:, None])[:, 0]
    recipes = [layer.adapter.recipe() for layer in layers_with_adapters]
    new_ids = np.flatnonzero(np.minimum(*(recipe.copied for recipe in recipes)) < 0)
    embeddings.old.padding_idx = embeddings.padding_idx
    for layer in layers_with_adapters:
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


class WithAuxiliaryLoss(Objective):
    """Another objective plus alpha times Eq. 4 of each adapter (VocADT, §3.3).

    It keeps the adapters' rows of shared tokens close to their initial values. The paper has Eq. 4
    for one adapter; here those of input and head are added. In the training log, `aux_loss`
    includes the factor alpha.
    """

    def __init__(self, objective: Objective, adapters: Sequence[Adapter], alpha: float):
        self.objective, self.adapters, self.alpha = objective, list(adapters), alpha
        self.loss_names = (*(objective.loss_names or ("lm_loss",)), "aux_loss")

    def modules(self):
        """The modules of the other objective."""
        return self.objective.modules()

    def count_targets(self, batch):
        """The other objective's targets, and one more: each micro-batch adds the loss once."""
        counts = self.objective.count_targets(batch)
        return torch.cat([counts, counts.new_ones(1)])

    def losses(self, model, inputs, weights=None):
        """The other objective's parts, and the auxiliary loss."""
        losses = self.objective.losses(model, inputs, None if weights is None else weights[:-1])
        drift = torch.stack([adapter.drift() for adapter in self.adapters]).sum()
        return torch.cat([losses, self.alpha * drift[None]])

    def total(self, losses):
        """The other objective's loss plus the auxiliary loss."""
        return self.objective.total(losses[:-1]) + losses[-1]


class AdaptedEmbedding(torch.nn.Module):
    """Looks up rows of `A E`, computed only for the tokens of a batch; E [n_source, h] is `old`."""

    def __init__(self, old: torch.nn.Embedding, adapter: Adapter, source_of: np.ndarray):
        super().__init__()
        self.old, self.adapter, self.source_of = old, adapter, source_of
        # Its row gets no gradient; in `forward`, this index would be another token of the batch.
        self.padding_idx, old.padding_idx = old.padding_idx, None

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows [..., h] of target ids."""
        distinct, indices = ids.unique(return_inverse=True)
        rows = self.adapter.rows(distinct, self.old.weight)
        # Some architectures scale what they look up, so the source's embedding is called, with
        # these rows as its matrix.
        return functional_call(self.old, {"weight": rows}, (indices,))


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
