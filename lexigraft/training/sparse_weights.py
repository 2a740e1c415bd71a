"""A sparse matrix whose stored weights are trained, and which weights those are."""

import numpy as np
import torch
from scipy.sparse import csr_array
from torch.nn.functional import embedding_bag


class SparseWeights(torch.nn.Module):
    """A sparse matrix [n, m] of which the stored entries are trained."""

    columns: torch.Tensor
    starts: torch.Tensor

    def __init__(self, matrix: csr_array):
        super().__init__()
        self.values = torch.nn.Parameter(torch.from_numpy(matrix.data.astype(np.float32)))
        columns = torch.from_numpy(matrix.indices.astype(np.int64))
        starts = torch.from_numpy(matrix.indptr.astype(np.int64))
        self.register_buffer("columns", columns, persistent=False)
        self.register_buffer("starts", starts, persistent=False)

    def forward(self, table: torch.Tensor, ids: torch.Tensor | None) -> torch.Tensor:
        """Rows `ids`, or all, times a table [m, width]."""
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
        # A weighted sum of rows of a table for each bag: nothing in between is kept in memory.
        return embedding_bag(
            columns,
            table.contiguous(),
            starts,
            per_sample_weights=values,
            mode="sum",
            include_last_offset=True,
        )

    def matrix(self, width: int) -> csr_array:
        """The matrix as it is now, float64, of `width` columns."""
        values = self.values.detach().double().cpu().numpy()
        starts = self.starts.cpu().numpy()
        shape = (len(starts) - 1, width)
        return csr_array((values, self.columns.cpu().numpy(), starts), shape=shape)


def largest(matrix: csr_array, entries: int) -> csr_array:
    """Of each row the `entries` stored weights of the largest magnitude, of equals the first.

    Where a row has no negative weight, those that are kept are scaled to the sum of all.
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
