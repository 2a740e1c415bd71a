"""A matrix of token rows in fewer coordinates: the subspace that holds most of it.

OFA (Liu et al. 2024, section 3.1) keeps the leading part of a singular value decomposition.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from lexigraft.initialization.matrix import Matrix, blocks, read_rows, working_type


def leading_axes(matrix: Matrix, rank: int) -> np.ndarray:
    """The right singular vectors of the `rank` largest singular values, padding rows included.

    They are the eigenvectors of `matrixᵀ matrix`, which is summed up a block of rows at a time: no
    second matrix of its size is needed.

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
    squares = np.zeros((h, h))
    for block in blocks(n, h):
        rows = read_rows(matrix, np.arange(n)[block], slice(None))
        squares += rows.T @ rows
    _, axes = eigh(squares, subset_by_index=[h - rank, h - 1])
    return axes.astype(working_type(matrix))


def projected(
    sums: Iterable[tuple[slice, np.ndarray]], axes: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
    """Rows projected onto orthonormal axes, a block of columns at a time, as they came.

    Parameters
    ----------
    sums
        Blocks of columns and their values [k, width], which together are rows [k, h].
    axes
        [h, rank].
    """
    coordinates = np.zeros((), axes.dtype)
    for columns, values in sums:
        coordinates = coordinates + values @ axes[columns]  # [k, rank]
    for columns in blocks(len(axes), len(coordinates)):
        yield columns, coordinates @ axes[columns].T
