"""VocADT's adapter: a recipe whose weights are trained (VocADT, §3)."""

from abc import ABC, abstractmethod

import numpy as np
import torch
from scipy.sparse import csr_array, hstack, vstack
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding_bag, linear

from lexigraft.initialization.matrix import blocks
from lexigraft.initialization.recipe import Recipe


class Adapter(torch.nn.Module, ABC):
    """The trained recipe `A` [n_target, n_source] of one matrix.

    Rows of `A E` are computed when they are looked up.

    `start` is the initial recipe (Eqs. 1 to 3, or any other); `entries` is the maximum number of
    weights per row in the resulting recipe, and the sparse form trains no others.
    """

    def __init__(self, start: Recipe, entries: int):
        super().__init__()
        self.entries = entries
        self.n_target, self.n_source = start.n_target, start.n_source

    @abstractmethod
    def rows(self, ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        """`A[ids] @ table`: rows [len(ids), h] of a source matrix [n_source, h], never rounded."""

    @abstractmethod
    def logits(self, hidden: torch.Tensor, head: torch.nn.Linear) -> torch.Tensor:
        """`(hidden @ E^T + b) @ A^T`: logits [..., n_target] of hidden states [..., h].

        `head` is the source's, `E` [n_source, h] its weight and `b` [n_source] its bias, if any.
        They are computed from the source's logits or from the matrix `A E`, whichever needs fewer
        multiplications: the former for few positions, as in generation.
        """

    def _through_source(self, hidden: torch.Tensor) -> bool:
        """Whether logits need fewer multiplications if computed from the source's logits."""
        size, positions = hidden.shape[-1], hidden.shape[:-1].numel()
        weights = sum(parameter.numel() for parameter in self.parameters())
        from_logits = positions * (self.n_source * size + weights)
        return from_logits < size * (weights + self.n_target * positions)

    @abstractmethod
    def drift(self) -> torch.Tensor:
        """The mean distance of the rows of shared tokens from their initial values (Eq. 4)."""

    @abstractmethod
    def recipe(self) -> Recipe:
        """The current `A`, with the `entries` largest weights per row; no token counts as new."""

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
        self.shared = _buffer(shared)
        self.copied = _buffer(start.source_of[shared])

    def rows(self, ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        """See `Adapter.rows`; under autocast, the weights' gradient is computed in bfloat16."""
        kind = table.device.type
        lower = torch.is_autocast_enabled(kind)
        dtype = torch.get_autocast_dtype(kind) if lower else table.dtype
        with torch.autocast(kind, enabled=False):
            return _Rows.apply(self.weights, ids, table, dtype)

    def logits(self, hidden: torch.Tensor, head: torch.nn.Linear) -> torch.Tensor:
        """See `Adapter.logits`; bfloat16 under autocast."""
        if self._through_source(hidden):
            return linear(head(hidden), self.weights)
        bias = None if head.bias is None else self.weights @ head.bias
        return linear(hidden, self.weights @ head.weight, bias)

    def drift(self) -> torch.Tensor:
        """See `Adapter.drift`."""
        distances = _FromOneHot.apply(self.weights, self.shared, self.copied)
        return distances.sum() / max(1, len(distances))

    def recipe(self) -> Recipe:
        """See `Adapter.recipe`."""
        found = []
        with torch.no_grad():
            for block in blocks(self.n_target, self.n_source):
                rows = self.weights[block].double()
                at = rows.abs().topk(min(self.entries, self.n_source), dim=1, sorted=False).indices
                data, columns = rows.gather(1, at).cpu().numpy(), at.cpu().numpy()
                starts = np.arange(len(data) + 1) * columns.shape[1]
                shape = (len(data), self.n_source)
                found.append(csr_array((data.ravel(), columns.ravel(), starts), shape=shape))
        left = csr_array(vstack(found, format="csr"))
        left.eliminate_zeros()
        left.sort_indices()
        return Recipe(left, None, _NONE)


class _Rows(torch.autograd.Function):
    """`weights[ids] @ table`, without a copy of these weights or of their gradient.

    Both would be almost as large as the adapter, so one block of the source's tokens is computed
    after the other. The gradient's blocks are computed in `dtype`; `table` gets none.
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


class SparseAdapter(Adapter):
    """Only some weights of each row are trained, all others stay zero. Not in the paper.

    The trained weights are those of the largest magnitude in the initial row; if the row has no
    negative weight, they are scaled to the sum of all. If a row includes the mean of all source
    tokens, this mean counts as another source token with a single weight.
    """

    def __init__(self, start: Recipe, entries: int):
        super().__init__(start, entries)
        left = largest_weights(start.left, entries)
        self.right = start.right
        self.own = SparseWeights(csr_array(left[:, : self.n_source]))
        self.bundles = None
        if start.right is not None:
            # `recipe.assemble_recipe` puts the source rows first, then what they are bundled into.
            self.bundles = SparseWeights(csr_array(left[:, self.n_source :]))
            bundled = start.right[self.n_source :].toarray().astype(np.float32)
            self.bundled = _buffer(bundled)
        # A shared token's row has a single weight, which is 1.
        shared = np.flatnonzero(start.source_of >= 0)
        self.shared = _buffer(self.own.starts.numpy()[shared])

    def rows(self, ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        """See `Adapter.rows`."""
        return self._products(table, ids)

    def logits(self, hidden: torch.Tensor, head: torch.nn.Linear) -> torch.Tensor:
        """See `Adapter.logits`; under autocast bfloat16, or float32 if made of source logits."""
        if self._through_source(hidden):
            source = head(hidden)
            table = source.flatten(0, -2).T
            return self._products(table, None).T.unflatten(0, source.shape[:-1])
        bias = None if head.bias is None else self._products(head.bias[:, None], None)[:, 0]
        return linear(hidden, self._products(head.weight, None), bias)

    def drift(self) -> torch.Tensor:
        """See `Adapter.drift`."""
        distances = (self.own.values[self.shared] - 1).abs()
        return distances.sum() / max(1, len(distances))

    def recipe(self) -> Recipe:
        """See `Adapter.recipe`."""
        own = self.own.matrix(self.n_source)
        if self.bundles is None:
            return Recipe(own, None, _NONE)
        both = [own, self.bundles.matrix(len(self.bundled))]
        return Recipe(csr_array(hstack(both, format="csr")), self.right, _NONE)

    def _products(self, table: torch.Tensor, ids: torch.Tensor | None) -> torch.Tensor:
        with torch.autocast(table.device.type, enabled=False):
            found = self.own(table, ids)
            if self.bundles is not None:
                bundled = self.bundled @ table.to(self.bundled.dtype)
                found = found + self.bundles(bundled, ids)
        return found


class SparseWeights(torch.nn.Module):
    """A sparse matrix [n, m] whose stored entries are trained; only `used` columns have any."""

    def __init__(self, matrix: csr_array):
        super().__init__()
        self.values = torch.nn.Parameter(torch.from_numpy(matrix.data.astype(np.float32)))
        used, columns = np.unique(matrix.indices.astype(np.int64), return_inverse=True)
        self.used, self.columns = _buffer(used), _buffer(columns)  # `columns` index `used`
        self.starts = _buffer(matrix.indptr.astype(np.int64))

    def forward(self, table: torch.Tensor, ids: torch.Tensor | None) -> torch.Tensor:
        """Rows `ids`, or all, times a table [m, width], in float32."""
        table = table[self.used].to(self.values.dtype)
        columns, starts = self.columns, self.starts
        values: torch.Tensor = self.values
        if ids is not None:
            begin = starts[ids]
            lengths = starts[ids + 1] - begin
            ends = lengths.cumsum(0)
            shift = (begin - (ends - lengths)).repeat_interleave(lengths)
            at = torch.arange(len(shift), device=shift.device) + shift
            columns, values = columns[at], values[at]
            starts = torch.cat([ends.new_zeros(1), ends])
        # A weighted sum of rows of the table for each bag, without intermediate tensors.
        return embedding_bag(
            columns,
            table.contiguous(),
            starts,
            per_sample_weights=values,
            mode="sum",
            include_last_offset=True,
        )

    def matrix(self, width: int) -> csr_array:
        """The current matrix, float64, with `width` columns."""
        values = self.values.detach().double().cpu().numpy()
        starts = self.starts.cpu().numpy()
        shape = (len(starts) - 1, width)
        return csr_array((values, self.used[self.columns].cpu().numpy(), starts), shape=shape)


def largest_weights(matrix: csr_array, entries: int) -> csr_array:
    """Keep the `entries` stored weights of the largest magnitude in each row; first ones on ties.

    If a row has no negative weight, the remaining ones are scaled to the sum of all.
    """
    lengths = np.diff(matrix.indptr)
    if lengths.max(initial=0) <= entries:
        return matrix
    row = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((matrix.indices, -np.abs(matrix.data), row))
    rank = np.arange(len(row)) - np.repeat(matrix.indptr[:-1], lengths)
    kept = np.sort(order[rank < entries])
    of, values = row[kept], matrix.data[kept]
    left = np.bincount(of, values, minlength=len(lengths))
    total = np.bincount(row, matrix.data, minlength=len(lengths))
    lowest = np.zeros(len(lengths))
    np.minimum.at(lowest, row, matrix.data)
    scaled = (lowest >= 0) & (left > 0) & (lengths > entries)
    scale = np.divide(total, left, out=np.ones(len(lengths)), where=scaled)
    starts = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=len(lengths)))])
    data = (values * scale[of], matrix.indices[kept], starts)
    return csr_array(data, shape=matrix.shape)


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


_NONE = np.empty(0, dtype=np.int64)


def _buffer(values: np.ndarray) -> torch.Tensor:
    return torch.nn.Buffer(torch.from_numpy(values), persistent=False)


def _difference(matrix: torch.Tensor, ids: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Rows `ids` of a matrix minus one-hot rows at `columns`, [len(ids), m]."""
    rows = matrix[ids]
    rows[torch.arange(len(ids), device=ids.device), columns] -= 1
    return rows
