"""Where the few highest scores of each row stand, among hundreds of thousands.

Ordering whole rows, even in part, takes many times as long as making the scores. The maxima of
chunks bound what is high; what reaches the bound is little, and that is ordered
(benchmarks/initialization_scale.py).
"""

import numpy as np

_CHUNK = 64


def highest(scores: np.ndarray, k: int) -> np.ndarray:
    """Columns [n, k] of the k highest scores of each row [n, m], in no particular order.

    Of scores that are equal any may be taken; k is at most m.
    """
    if not len(scores):
        return np.empty((0, k), dtype=np.int64)
    of, columns = high(scores, k)
    values, at = by_row(scores[of, columns], of, len(scores))
    chosen = np.argpartition(values, values.shape[1] - k, axis=1)[:, values.shape[1] - k :]
    return columns[np.take_along_axis(at, chosen, axis=1)]


def high(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of scores among which are the k highest of each row.

    Parameters
    ----------
    scores
        [n, m], floating-point, without NaN.
    k
        At least 1. All scores are returned where a bound would leave out few of them.

    Returns
    -------
    rows, columns
        Ascending; a row has k entries or more, of which none is lower than what is left out.
    """
    n, m = scores.shape
    chunks = m // _CHUNK
    if k > chunks // 2:
        return np.divmod(np.arange(n * m), m)
    # The k-th highest maximum of a chunk: k scores reach it, and those left out do not.
    peaks = scores[:, : chunks * _CHUNK].reshape(n, chunks, _CHUNK).max(axis=2)
    bound = np.partition(peaks, chunks - k, axis=1)[:, chunks - k, None]
    return np.divmod(np.flatnonzero(scores >= bound), m)


def by_row(values: np.ndarray, of: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Values as a matrix [n, most of a row], filled up with minus infinity.

    Parameters
    ----------
    values, of
        [number of values], and the row of each, ascending.

    Returns
    -------
    matrix, at
        And for each of its entries the index into `values`; 0 for what was filled up.
    """
    counts = np.bincount(of, minlength=n)
    place = np.arange(len(of)) - (np.cumsum(counts) - counts)[of]
    shape = (n, int(counts.max(initial=0)))
    matrix, at = np.full(shape, -np.inf, dtype=values.dtype), np.zeros(shape, dtype=np.int64)
    matrix[of, place], at[of, place] = values, np.arange(len(of))
    return matrix, at
