"""Co-occurrence counts of tokens, the matrix that GloVe factorizes.

A pair at distance d counts 1/d (Pennington, Socher and Manning 2014, sections 3.1 and 4.2).
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

_PAIRS_AT_ONCE = 1 << 23
# Most pairs are of the few hundred most frequent tokens: these are counted in a dense table, and
# only the others are sorted.
_FREQUENT = 4096


@dataclass(frozen=True)
class Cooccurrences:
    """The upper triangle of a symmetric matrix X with its diagonal, in row-major order.

    Attributes
    ----------
    rows, columns
        int32 [n], `rows <= columns`.
    values
        float64 [n], positive: the sum of 1/d over all pairs of the two tokens that are d apart; on
        the diagonal twice that, since such a pair counts in both directions.
    size
        Rows of X.
    """

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    size: int


def count_cooccurrences(ids: np.ndarray, number: np.ndarray, window: int) -> Cooccurrences:
    """Count weighted pairs of tokens within a window on either side, never across sentences.

    Parameters
    ----------
    ids
        int32: sentences of token ids, each followed by a negative number.
    number
        int64 [largest id + 1]: the row of each token in X, without gaps; -1 for tokens that are
        removed from the text.
    window
        Number of context tokens on either side.

    Notes
    -----
    Needs 16 bytes for each nonzero cell of X, at its peak twice that, and 200 MB.
    """
    size = int(number.max(initial=-1)) + 1
    frequent, place = _frequent(ids, number, size)
    table = np.zeros((len(frequent), len(frequent)))
    # A pair and its distance are one integer: these sort ten times faster than pairs of arrays.
    bits = window.bit_length()
    buffer = np.empty(max(_PAIRS_AT_ONCE, window), dtype=np.int64)
    runs: list[tuple[np.ndarray, np.ndarray]] = []
    position = 0
    while position < len(ids):
        position, filled = _pairs(ids, number, place, table, window, bits, position, buffer)
        found = buffer[:filled]
        found.sort()
        runs.append(_summed(found, bits))
        # Each run is at least twice as long as the next, so that each cell is merged few times.
        while len(runs) > 1 and len(runs[-2][0]) < 2 * len(runs[-1][0]):
            runs.append(_merged(*runs.pop(-2), *runs.pop()))
    runs.append(_of_table(table, frequent, size))
    while len(runs) > 1:
        runs.append(_merged(*runs.pop(-2), *runs.pop()))
    cells, values = runs[0]
    rows, columns = np.divmod(cells, max(size, 1))
    values = np.where(rows == columns, 2 * values, values)
    return Cooccurrences(rows.astype(np.int32), columns.astype(np.int32), values, size)


def _frequent(ids: np.ndarray, number: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the most frequent tokens in ascending order; for each row its place there, or -1."""
    counts = _counted(ids, number, size)
    frequent = np.sort(np.argsort(-counts, kind="stable")[:_FREQUENT])
    place = np.full(size, -1, dtype=np.int64)
    place[frequent] = np.arange(len(frequent))
    return frequent, place


@njit(nogil=True)
def _counted(ids, number, size):
    """Number of occurrences of the token of each row."""
    counts = np.zeros(size, dtype=np.int64)
    for token in ids:
        if token >= 0 and number[token] >= 0:
            counts[number[token]] += 1
    return counts


def _of_table(table: np.ndarray, frequent: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Cells and values of the table's pairs, in ascending order as its rows and columns are."""
    rows, columns = np.nonzero(table)
    return frequent[rows] * size + frequent[columns], table[rows, columns]


@njit(nogil=True)
def _pairs(ids, number, place, table, window, bits, start, buffer):
    """Count the pairs whose second token is at `start` or later, until the buffer is full.

    Pairs of two frequent tokens are added to the table, others are written to the buffer.
    Returns the position of the next token, and how many pairs were written.
    """
    size = len(place)
    filled = 0
    position = start
    while position < len(ids) and filled + window <= len(buffer):
        one = number[ids[position]] if ids[position] >= 0 else -1
        if one >= 0:
            distance = 1
            before = position - 1
            while distance <= window and before >= 0 and ids[before] >= 0:
                other = number[ids[before]]
                if other >= 0:
                    low, high = min(one, other), max(one, other)
                    if place[low] >= 0 and place[high] >= 0:
                        table[place[low], place[high]] += 1.0 / distance
                    else:
                        buffer[filled] = ((low * size + high) << bits) | distance
                        filled += 1
                    distance += 1
                before -= 1
        position += 1
    return position, filled


@njit(nogil=True)
def _summed(pairs, bits):
    """Cells in ascending order, and the sum of 1/distance in each, of pairs in ascending order."""
    cells = np.empty(len(pairs), dtype=np.int64)
    values = np.empty(len(pairs), dtype=np.float64)
    last = -1
    for pair in pairs:
        cell = pair >> bits
        if last < 0 or cells[last] != cell:
            last += 1
            cells[last] = cell
            values[last] = 0.0
        values[last] += 1.0 / (pair & ((1 << bits) - 1))
    return cells[: last + 1].copy(), values[: last + 1].copy()


@njit(nogil=True)
def _merged(cells, values, more_cells, more_values):
    """Two runs of cells in ascending order as one, the values of equal cells added."""
    merged = np.empty(len(cells) + len(more_cells), dtype=np.int64)
    sums = np.empty(len(merged), dtype=np.float64)
    one = other = length = 0
    while one < len(cells) or other < len(more_cells):
        if other == len(more_cells) or (one < len(cells) and cells[one] < more_cells[other]):
            merged[length], sums[length] = cells[one], values[one]
            one += 1
        elif one == len(cells) or more_cells[other] < cells[one]:
            merged[length], sums[length] = more_cells[other], more_values[other]
            other += 1
        else:
            merged[length], sums[length] = cells[one], values[one] + more_values[other]
            one += 1
            other += 1
        length += 1
    return merged[:length].copy(), sums[:length].copy()
