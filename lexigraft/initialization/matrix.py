"""Embedding matrices, as numpy arrays or torch tensors: rows, moments and projections.

Arithmetic is done in numpy, in float32 (float64 for float64) unless stated otherwise, one block at
a time: no computation needs a second matrix of the same size.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from scipy.linalg import eigh, pinvh

from lexigraft.errors import UserError

Matrix = Any  # numpy.ndarray or torch.Tensor, [rows, h]

_BLOCK_VALUES = 1 << 23  # 32 MiB of float32: small compared to embedding matrices


def check_matrix(matrix: Matrix, n_rows: int) -> None:
    """Raise a `UserError` for anything but a floating-point matrix with `n_rows` rows."""
    if isinstance(matrix, torch.Tensor):
        is_matrix = matrix.ndim == 2 and matrix.is_floating_point()
    else:
        is_matrix = isinstance(matrix, np.ndarray) and (matrix.ndim, matrix.dtype.kind) == (2, "f")
    if not is_matrix:
        raise UserError(f"matrix: give a floating-point array or tensor of rows [{n_rows}, h]")
    if matrix.shape[0] != n_rows:
        raise UserError(
            f"matrix: it has {matrix.shape[0]} rows, but the initializer was fitted for {n_rows}; "
            "fit it with n_source=<number of rows of the source matrix>"
        )


def target_matrix(
    matrix: Matrix, copied: np.ndarray, new: Iterable[tuple[slice, np.ndarray]]
) -> Matrix:
    """Build a matrix [len(copied), h] of a source matrix's array type, dtype and device.

    `copied` is the source row that each row copies bit for bit, -1 for all other rows. These are
    given by `new`: slices of columns and their values [number of other rows, width]. Raises a
    `UserError` if any is not finite.
    """
    shape = (len(copied), matrix.shape[1])
    is_tensor = isinstance(matrix, torch.Tensor)
    target: Any = matrix.new_empty(shape) if is_tensor else np.empty(shape, matrix.dtype)
    copied_ids, other_ids = np.flatnonzero(copied >= 0), np.flatnonzero(copied < 0)
    source = matrix.detach() if is_tensor else matrix
    for block in blocks(len(copied_ids), matrix.shape[1]):
        target[_index(copied_ids[block], matrix)] = source[
            _index(copied[copied_ids[block]], matrix)
        ]
    for columns, values in new:
        if is_tensor:
            rounded = torch.from_numpy(values).to(matrix.device, matrix.dtype)
            target[_index(other_ids, matrix), columns] = rounded
            finite = bool(rounded.isfinite().all())
        else:
            target[other_ids, columns] = values
            finite = bool(np.isfinite(target[other_ids, columns]).all())
        if not finite:
            raise UserError(
                "matrix: new rows would hold NaN or infinity; correct source rows that do, or pass "
                f"the matrix in float32 if sums are too large for {matrix.dtype}"
            )
    return target


def working_type(matrix: Matrix) -> np.dtype:
    """float64 for float64 matrices, float32 for all others."""
    return np.dtype(np.float64 if "float64" in str(matrix.dtype) else np.float32)


def read_rows(matrix: Matrix, rows: np.ndarray, columns: slice) -> np.ndarray:
    """Read these rows and columns as a numpy array [len(rows), width] of the working type."""
    if isinstance(matrix, torch.Tensor):
        block = matrix.detach()[:, columns][_index(rows, matrix)]
        is_double = matrix.dtype == torch.float64
        return block.to("cpu", torch.float64 if is_double else torch.float32).numpy()
    return matrix[:, columns][rows].astype(working_type(matrix))


def blocks(length: int, width: int) -> Iterator[slice]:
    """Slices that split `length` rows or columns of `width` values into blocks of bounded size."""
    step = max(1, _BLOCK_VALUES // max(1, width))
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


def row_mean(matrix: Matrix, ids: np.ndarray) -> np.ndarray:
    """Mean [h] of the rows `ids`, float64."""
    return sum(rows.sum(axis=0) for rows in _row_blocks(matrix, ids)) / len(ids)


def row_deviation(matrix: Matrix, ids: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Standard deviation [h] of the rows `ids` (divided by n), float64, given their mean."""
    squares = (((rows - mean) ** 2).sum(axis=0) for rows in _row_blocks(matrix, ids))
    return np.sqrt(sum(squares) / len(ids))


def row_covariance(matrix: Matrix, ids: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Covariance [h, h] of the rows `ids` (divided by n), float64, given their mean."""
    centred = (rows - mean for rows in _row_blocks(matrix, ids))
    return sum(rows.T @ rows for rows in centred) / len(ids)


def in_hull(matrix: Matrix, ids: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Whether points [k, h] are in the convex hull of the rows `ids`: 1, 0 or NaN if not decided.

    With mean m and covariance C of the rows e, a point r is the sum of all rows with the weights
    (1 + s) / n, where s = (e - m) C⁻¹ (r - m): it is in the hull if none is negative. It is not in
    the hull if (r - m) C⁻¹ (r - m) is larger than every s, since a hyperplane then separates them.
    """
    mean = row_mean(matrix, ids)
    covariance = row_covariance(matrix, ids, mean)
    offsets = points - mean
    directions = offsets @ pinvh(covariance)
    lowest, highest = np.full(len(points), np.inf), np.full(len(points), -np.inf)
    for rows in _row_blocks(matrix, ids):
        scores = (rows - mean) @ directions.T
        lowest = np.minimum(lowest, scores.min(axis=0))
        highest = np.maximum(highest, scores.max(axis=0))
    is_in_span = np.isclose(directions @ covariance, offsets, rtol=1e-3, atol=1e-6).all(axis=1)
    is_outside = ~is_in_span | (np.einsum("ij,ij->i", offsets, directions) > highest * (1 + 1e-6))
    return np.where(is_outside, 0.0, np.where(lowest >= -1, 1.0, np.nan))


def mean_norm(matrix: Matrix, ids: np.ndarray) -> float:
    """Mean Euclidean norm of the rows `ids`."""
    norms = (np.linalg.norm(rows, axis=1).sum() for rows in _row_blocks(matrix, ids))
    return float(sum(norms) / len(ids))


def _row_blocks(matrix: Matrix, ids: np.ndarray) -> Iterator[np.ndarray]:
    for block in blocks(len(ids), matrix.shape[1]):
        yield read_rows(matrix, ids[block], slice(None)).astype(np.float64)


def leading_singular_vectors(matrix: Matrix, rank: int) -> np.ndarray:
    """The right singular vectors [h, rank] of the `rank` largest singular values.

    Padding rows that are not finite are left out. The columns are orthonormal with arbitrary signs,
    float32 (float64 for float64).
    """
    n, h = matrix.shape
    gram = np.zeros((h, h))
    for block in blocks(n, h):
        rows = read_rows(matrix, np.arange(n)[block], slice(None))
        rows = rows[np.isfinite(rows).all(axis=1)]
        gram += rows.T @ rows
    _, vectors = eigh(gram, subset_by_index=[h - rank, h - 1])
    return vectors.astype(working_type(matrix))


def project(
    column_blocks: Iterable[tuple[slice, np.ndarray]], singular_vectors: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
    """Project rows [k, h] onto orthonormal vectors [h, rank], a block of columns at a time."""
    coordinates = np.zeros((), singular_vectors.dtype)
    for columns, values in column_blocks:
        coordinates = coordinates + values @ singular_vectors[columns]  # [k, rank]
    for columns in blocks(len(singular_vectors), len(coordinates)):
        yield columns, coordinates @ singular_vectors[columns].T


def _index(ids: np.ndarray, matrix: Matrix) -> Any:
    """Convert ids to an index into a matrix, of its array type and on its device."""
    if not isinstance(matrix, torch.Tensor):
        return ids
    return torch.from_numpy(ids).to(matrix.device)
