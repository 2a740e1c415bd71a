"""Statistical alignment of units (words or tokens) of parallel sentences by EM.

This is IBM Model 1 (Brown et al. 1993), optionally with the prior of Dyer, Chahuneau and Smith
2013, "A Simple, Fast, and Effective Reparameterization of IBM Model 2", which favours units at
similar positions in their sentences: the model of the program fast_align.
"""

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.sparse import csr_array

# Maximum number of pairs of units whose probabilities are estimated: about 1.5 GB.
_MOST_PAIRS = 1 << 25
_NULL = 0.08  # fast_align's probability of aligning to no unit, if there is a tension
# fast_align keeps the translations of a unit whose log probability is at most this many times that
# of the most probable one.
_BEAM = 4


@dataclass(frozen=True)
class Bitext:
    """Parallel sentences as unit numbers (int32), concatenated on each side.

    Sentence k lies between the `starts` (int64) k and k + 1 of its side.
    """

    source: np.ndarray
    source_starts: np.ndarray
    target: np.ndarray
    target_starts: np.ndarray

    @classmethod
    def of(cls, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> "Bitext":
        """Build a bitext from pairs of lists of units, without pairs that have an empty side."""
        # Lists of Python integers would take ten times the memory.
        units, starts = (array("i"), array("i")), (array("q", [0]), array("q", [0]))
        for sides in pairs:
            if all(map(len, sides)):
                for side, of_side, of_starts in zip(sides, units, starts, strict=True):
                    of_side.extend(side)
                    of_starts.append(len(of_side))
        source, target, source_starts, target_starts = map(np.asarray, (*units, *starts))
        return cls(source, source_starts, target, target_starts)

    def __len__(self) -> int:
        return len(self.source_starts) - 1


def expected_counts(bitext: Bitext, *, iterations: int, diagonal_tension: float = 0.0) -> csr_array:
    r"""Expected number of alignments of each target unit to each source unit.

    Every target unit aligns to one source unit of its sentence or to none. The probability of
    source unit $i$ of $n$ is proportional to $t(f_j \mid e_i)\, \delta_i$. The translation
    probabilities $t$ are estimated by `iterations` of EM, starting from equal probabilities.
    Without a `diagonal_tension` $\lambda$, $\delta$ is the same for all units and for none;
    otherwise it is $\exp(-\lambda\, |i / n - j / m|)$ for target unit $j$ of $m$, scaled to a sum
    of 0.92.

    Returns the expected counts of the last iteration [largest source unit + 1, largest target unit
    + 1], float64, without those of improbable translations: $t(f \mid e) < \max_{f'} t(f' \mid
    e)^4$. At most `_MOST_PAIRS` pairs of units are estimated; in a text with more, the pairs that
    co-occur least often are not aligned.

    Examples
    --------
    >>> bitext = Bitext.of([([0, 1], [0, 1]), ([0], [0]), ([1, 2], [1, 2])])
    >>> expected_counts(bitext, iterations=20).toarray().round(1).tolist()
    [[1.3, 0.0, 0.0], [0.0, 1.3, 0.0], [0.0, 0.0, 1.0]]
    """
    if not len(bitext):
        return csr_array((0, 0))
    shape = (int(bitext.source.max()) + 1, int(bitext.target.max()) + 1)
    indptr, columns = _cooccurring(bitext, shape)
    text = (bitext.source, bitext.source_starts, bitext.target, bitext.target_starts)
    probabilities, of_null = np.ones(len(columns)), np.ones(shape[1])
    counts = np.zeros(len(columns))
    rows = np.repeat(np.arange(shape[0], dtype=np.int32), np.diff(indptr))
    for _ in range(iterations):
        counts, null_counts = np.zeros(len(columns)), np.zeros(shape[1])
        _expect(
            *text, indptr, columns, probabilities, of_null, counts, null_counts,
            float(diagonal_tension),
        )  # fmt: skip
        totals = np.bincount(rows, counts, minlength=shape[0])
        probabilities = counts / np.where(totals > 0, totals, 1)[rows]
        of_null = null_counts / max(null_counts.sum(), 1e-300)
    highest = np.zeros(shape[0])
    np.maximum.at(highest, rows, probabilities)
    kept = (counts > 0) & (probabilities >= highest[rows] ** _BEAM)
    return csr_array((counts[kept], (rows[kept], columns[kept])), shape=shape)


def _cooccurring(bitext: Bitext, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of units that co-occur in a sentence pair, as `indptr` and `indices` of a sparse array.

    Columns are ascending in each row.
    """
    sentences = np.repeat(np.arange(len(bitext), dtype=np.int32), np.diff(bitext.source_starts))
    order = np.argsort(bitext.source, kind="stable")
    places = sentences[order]  # the sentences in which each source unit occurs, unit by unit
    ends = np.cumsum(np.bincount(bitext.source, minlength=shape[0]))
    text = (places, ends, bitext.target, bitext.target_starts)
    least, sizes, columns = 1, np.zeros(shape[0], dtype=np.int64), np.empty(0, dtype=np.int32)
    while True:
        times = np.zeros(shape[1], dtype=np.int32)
        _neighbours(*text, times, least, sizes, columns)
        if sizes.sum() <= _MOST_PAIRS:
            break
        least *= 2
    columns = np.empty(sizes.sum(), dtype=np.int32)
    _neighbours(*text, times, least, sizes, columns)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    pattern = csr_array((np.ones(len(columns), dtype=np.int8), columns, indptr), shape=shape)
    pattern.sort_indices()
    return indptr, pattern.indices


@njit(nogil=True)
def _neighbours(places, ends, target, starts, times, least, sizes, columns):
    """Count the target units that co-occur at least `least` times with each source unit.

    `times` is zero before and after. If `columns` has the right size, the units are written to it.
    """
    found = np.empty(len(times), dtype=np.int32)
    filled = first = 0
    for unit in range(len(ends)):
        distinct = kept = 0
        for place in range(first, ends[unit]):
            for at in range(starts[places[place]], starts[places[place] + 1]):
                if times[target[at]] == 0:
                    found[distinct] = target[at]
                    distinct += 1
                times[target[at]] += 1
        first = ends[unit]
        for at in range(distinct):
            if times[found[at]] >= least:
                if len(columns):
                    columns[filled] = found[at]
                    filled += 1
                kept += 1
            times[found[at]] = 0
        sizes[unit] = kept


@njit(nogil=True)
def _expect(
    source, source_starts, target, target_starts, indptr, columns, probabilities, of_null,
    counts, null_counts, tension,
):  # fmt: skip
    """Add the expected counts of all sentences to `counts` and `null_counts`."""
    longest = 0
    for place in range(len(source_starts) - 1):
        longest = max(longest, source_starts[place + 1] - source_starts[place])
    at, mass = np.empty(longest, dtype=np.int64), np.empty(longest)
    for place in range(len(source_starts) - 1):
        first, n = source_starts[place], source_starts[place + 1] - source_starts[place]
        begin, m = target_starts[place], target_starts[place + 1] - target_starts[place]
        for j in range(m):
            unit, null, scale = target[begin + j], 1 / (n + 1), 1 / (n + 1)
            mass[:n] = 1.0
            if tension > 0:
                for i in range(n):
                    mass[i] = math.exp(-tension * abs((i + 1) / n - (j + 1) / m))
                null, scale = _NULL, (1 - _NULL) / mass[:n].sum()
            total = null * of_null[unit]
            for i in range(n):
                low, high = indptr[source[first + i]], indptr[source[first + i] + 1] - 1
                while low < high:  # find the pair of units among those of the source unit
                    middle = (low + high) // 2
                    if columns[middle] < unit:
                        low = middle + 1
                    else:
                        high = middle
                at[i] = low
                if low == high and columns[low] == unit:
                    mass[i] *= scale * probabilities[low]
                else:
                    mass[i] = 0.0
                total += mass[i]
            if total > 0:
                null_counts[unit] += null * of_null[unit] / total
                for i in range(n):
                    if mass[i] > 0:
                        counts[at[i]] += mass[i] / total
