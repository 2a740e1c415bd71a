"""Moments, singular vectors and projections of embedding matrices, a block of rows at a time.

No computation here needs a second matrix of the embedding matrix's size.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from lexigraft.initialization.matrix import Matrix, blocks, read_rows, working_type


def row_mean(matrix: Matrix, ids: np.ndarray) -> np.ndarray:
    """Mean [h] of the rows `ids`, float64."""
    total = np.zeros(matrix.shape[1])
    for rows in _row_blocks(matrix, ids):
        total += rows.sum(axis=0)
    return total / len(ids)


def row_deviation(matrix: Matrix, ids: np.ndarray) -> np.ndarray:
    """Standard deviation [h] of the rows `ids` in each dimension (divided by n), float64."""
    mean = row_mean(matrix, ids)
    total = np.zeros(matrix.shape[1])
    for rows in _row_blocks(matrix, ids):
        total += ((rows - mean) ** 2).sum(axis=0)
    return np.sqrt(total / len(ids))


def row_covariance(matrix: Matrix, ids: np.ndarray) -> np.ndarray:
    """Covariance [h, h] of the rows `ids` (divided by n), float64."""
    mean = row_mean(matrix, ids)
    total = np.zeros((matrix.shape[1], matrix.shape[1]))
    for rows in _row_blocks(matrix, ids):
        centred = rows - mean
        total += centred.T @ centred
    return total / len(ids)


def _row_blocks(matrix: Matrix, ids: np.ndarray) -> Iterator[np.ndarray]:
    for block in blocks(len(ids), matrix.shape[1]):
        yield read_rows(matrix, ids[block], slice(None)).astype(np.float64)


def leading_singular_vectors(matrix: Matrix, rank: int) -> np.ndarray:
    """The right singular vectors of the `rank` largest singular values, padding rows included.

    They are the eigenvectors of `matrixᵀ matrix`, which is summed over blocks of rows.

    Parameters
    ----------
    matrix
        [n, h].
    rank
        From 1 to h.

    Returns
    -------
    ndarray
        [h, rank], orthonormal columns; float32 (float64 for float64). Signs are arbitrary.
    """
    from scipy.linalg import eigh

    n, h = matrix.shape
    gram = np.zeros((h, h))
    for block in blocks(n, h):
        rows = read_rows(matrix, np.arange(n)[block], slice(None))
        gram += rows.T @ rows
    _, vectors = eigh(gram, subset_by_index=[h - rank, h - 1])
    return vectors.astype(working_type(matrix))


def project(
    column_blocks: Iterable[tuple[slice, np.ndarray]], axes: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
    """Project rows onto orthonormal axes, a block of columns at a time.

    Parameters
    ----------
    column_blocks
        Slices of columns and their values [k, width], which together are rows [k, h].
    axes
        [h, rank].
    """
    coordinates = np.zeros((), axes.dtype)
    for columns, values in column_blocks:
        coordinates = coordinates + values @ axes[columns]  # [k, rank]
    for columns in blocks(len(axes), len(coordinates)):
        yield columns, coordinates @ axes[columns].T
