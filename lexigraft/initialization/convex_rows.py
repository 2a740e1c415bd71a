"""Trainable rows that stay inside the convex hull of source rows: `softmax(A) E` (CW2V)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

if TYPE_CHECKING:
    import torch

_LOGITS_AT_ONCE = 1 << 24  # 64 MiB of float32


class ConvexRows:
    """`softmax(left @ right + offsets) @ matrix`, with trainable factors [1]_.

    `right` starts at zero, so that the weights start as `softmax(offsets)`.

    Parameters
    ----------
    matrix
        The source rows [s, h], float32, on the computing device.
    offsets
        [k, s]: initial logits of each of the k rows; zero where none is stored.
    rank
        Width of the factors [k, rank] and [rank, s].
    rng
        Generator of the initial values of `left`.

    References
    ----------
    .. [1] Mundra et al. 2024 (CW2V), section 3.4.
    """

    def __init__(
        self, matrix: "torch.Tensor", offsets: csr_array, rank: int, rng: np.random.Generator
    ) -> None:
        import torch

        k, s = offsets.shape
        start = rng.standard_normal((k, rank), dtype=np.float32) / np.sqrt(rank, dtype=np.float32)
        self.matrix, self.offsets = matrix, offsets
        self.left = torch.from_numpy(start).to(matrix.device).requires_grad_()
        self.right = torch.zeros((rank, s), device=matrix.device, requires_grad=True)

    @property
    def parameters(self) -> list["torch.Tensor"]:
        """The two factors, for an optimizer."""
        return [self.left, self.right]

    def rows(self, numbers: np.ndarray) -> "torch.Tensor":
        """Some of the rows, [len(numbers), h], with a gradient.

        Weights are dense: many rows are computed a block at a time, and recomputed in the backward
        pass.
        """
        import torch
        from torch.utils.checkpoint import checkpoint

        parts = list(self._blocks(numbers))
        if len(parts) == 1:
            return self._mixed(parts[0])
        return torch.cat([checkpoint(self._mixed, part, use_reentrant=False) for part in parts])

    def weights(self, numbers: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield blocks of `numbers` and their weights [len(block), s], float64, summing to one."""
        import torch

        for part in self._blocks(numbers):
            with torch.no_grad():
                yield part, torch.softmax(self._logits(part).double(), dim=1).cpu().numpy()

    def _blocks(self, numbers: np.ndarray) -> list[np.ndarray]:
        height = max(1, _LOGITS_AT_ONCE // self.offsets.shape[1])
        cuts = range(height, max(1, len(numbers)), height)
        return np.split(numbers, list(cuts))

    def _mixed(self, numbers: np.ndarray) -> "torch.Tensor":
        return self._logits(numbers).softmax(dim=1) @ self.matrix

    def _logits(self, numbers: np.ndarray) -> "torch.Tensor":
        import torch

        at = torch.from_numpy(numbers).to(self.left.device)
        offsets = self.offsets[numbers].tocoo()
        logits = self.left[at] @ self.right
        if not offsets.nnz:
            return logits
        row, column = (torch.from_numpy(part.astype(np.int64)) for part in offsets.coords)
        values = torch.from_numpy(offsets.data.astype(np.float32))
        place = (row.to(logits.device), column.to(logits.device))
        return logits.index_put(place, values.to(logits.device), accumulate=True)


def truncate_weights(
    weights: np.ndarray, keep: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Approximate rows of weights by their largest ones and a weight on the mean of all.

    The other weights are replaced by their mean: exact where they are equal, and non-negative
    weights that sum to one in any case.

    Parameters
    ----------
    weights
        [n, s], rows non-negative and summing to one.
    keep
        Number of weights of a row to keep.

    Returns
    -------
    columns, values : ndarrays [n, min(keep, s)]
        The largest weights of each row, less what the mean of all contributes to them.
    on_all : ndarray [n]
        The weight on the mean of all s.
    moved : float
        The share of a row's weight that is on other columns than before, the mean over the rows.
    """
    n, s = weights.shape
    if keep >= s:
        return np.tile(np.arange(s), (n, 1)), weights, np.zeros(n), 0.0
    order = np.argpartition(weights, s - keep, axis=1)
    columns, light = order[:, s - keep :], order[:, : s - keep]
    rest = np.take_along_axis(weights, light, axis=1)
    level = rest.mean(axis=1, keepdims=True)
    moved = np.abs(rest - level).sum(axis=1) / 2
    values = np.take_along_axis(weights, columns, axis=1) - level
    return columns, np.maximum(values, 0), level[:, 0] * s, float(moved.mean()) if n else 0.0
