"""The k highest scores of each row, among hundreds of thousands.

Even a partial sort of whole rows takes many times as long as computing the scores. The maxima of
chunks give a bound; few scores reach it, and only those are sorted
(benchmarks/initialization_scale.py).
"""

import numpy as np

_CHUNK = 64


def top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """Columns [n, k] of the k highest scores of each row [n, m], in no particular order.

    Ties are broken arbitrarily; k is at most m.
    """
    if not len(scores):
        return np.empty((0, k), dtype=np.int64)
    rows, columns = top_k_candidates(scores, k)
    values, at = pad_rows(scores[rows, columns], rows, len(scores))
    chosen = np.argpartition(values, values.shape[1] - k, axis=1)[:, values.shape[1] - k :]
    return columns[np.take_along_axis(at, chosen, axis=1)]


def top_k_candidates(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of scores among which are the k highest of each row.

    Parameters
    ----------
    scores
        [n, m], floating-point, without NaN.
    k
        At least 1. All scores are returned where a bound would exclude few of them.

    Returns
    -------
    rows, columns
        Ascending. Each row has at least k entries, none of them lower than an excluded score.
    """
    n, m = scores.shape
    chunks = m // _CHUNK
    if k > chunks // 2:
        return np.divmod(np.arange(n * m), m)
    # The bound is the k-th highest maximum of a chunk: at least k scores reach it.
    peaks = scores[:, : chunks * _CHUNK].reshape(n, chunks, _CHUNK).max(axis=2)
    bound = np.partition(peaks, chunks - k, axis=1)[:, chunks - k, None]
    return np.divmod(np.flatnonzero(scores >= bound), m)


def pad_rows(values: np.ndarray, rows: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Values of ragged rows as a matrix [n, longest row], padded with minus infinity.

    Parameters
    ----------
    values, rows
        [number of values], and the row of each, ascending.

    Returns
    -------
    matrix, at
        The matrix, and for each of its entries the index into `values`; 0 at the padding.
    """
    counts = np.bincount(rows, minlength=n)
    place = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
    shape = (n, int(counts.max(initial=0)))
    matrix, at = np.full(shape, -np.inf, dtype=values.dtype), np.zeros(shape, dtype=np.int64)
    matrix[rows, place], at[rows, place] = values, np.arange(len(rows))
    return matrix, at
