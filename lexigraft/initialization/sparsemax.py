"""Sparsemax: scores to probabilities, most of them exactly zero (Martins and Astudillo 2016)."""

import numpy as np
from scipy.sparse import csr_array

from lexigraft.initialization.highest import by_row, high

_LOOKED_AT_FIRST = 128


def sparsemax(scores: np.ndarray) -> csr_array:
    """The point of the probability simplex that is nearest to each row of scores.

    Parameters
    ----------
    scores
        [n, m] with m at least 1, floating-point.

    Returns
    -------
    csr_array
        [n, m], float64: rows non-negative, summing to one, with only the highest scores above zero.
    """
    n, m = scores.shape
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    rows, looked_at = np.arange(n), _LOOKED_AT_FIRST
    # Few scores of a row are above zero in the end: the highest are looked at, and more of a row
    # only if all of these are.
    while len(rows):
        asked = scores if len(rows) == n else scores[rows]
        of, columns = high(asked, looked_at)
        values = asked[of, columns].astype(np.float64)
        falling, _ = by_row(values, of, len(rows))
        falling.sort(axis=1)
        falling = falling[:, ::-1]
        peak = falling[:, 0].copy()
        threshold, support = _thresholds(falling - peak[:, None])
        seen = np.bincount(of, minlength=len(rows))
        settled = (support < seen) | (seen == m)
        # Rows keep their projection when all scores move alike; small numbers round less.
        weights = values - peak[of] - threshold[of]
        kept = settled[of] & (weights > 0)
        parts.append((rows[of[kept]], columns[kept], weights[kept]))
        rows, looked_at = rows[~settled], 8 * looked_at
    at, columns, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
    return csr_array((weights, (at, columns)), shape=(n, m))


def _thresholds(falling: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Threshold and size of the support of each row of falling scores, the highest of them 0."""
    excess = np.cumsum(falling, axis=1) - 1
    ranks = np.arange(1, falling.shape[1] + 1)
    # Scores are in the support down to the last that exceeds the threshold it would set.
    support = np.count_nonzero(falling * ranks > excess, axis=1)
    last = np.take_along_axis(excess, support[:, None] - 1, axis=1)[:, 0]
    return last / support, support
