"""Statistical alignment of units (words or tokens) of parallel sentences by EM.

This is IBM Model 1 (Brown et al. 1993), optionally with the prior of fast_align, which favours
units at similar positions (Dyer, Chahuneau and Smith 2013).
"""

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.sparse import csr_array

# Maximum number of pairs of units whose probabilities are estimated: about 1.5 GB.
_MAX_PAIRS = 1 << 25
_UNITS_AT_ONCE = 256  # source units whose pairs are counted at once
_NULL = 0.08  # fast_align's probability of aligning to no unit, if there is a tension
# fast_align keeps the translations of a unit whose log probability is at most this many times that
# of the most probable one.
_BEAM = 4


@dataclass(frozen=True)
class Bitext:
    """Parallel sentences as unit numbers (int32), concatenated on each side, and their `starts`."""

    source: np.ndarray
    source_starts: np.ndarray
    target: np.ndarray
    target_starts: np.ndarray

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> "Bitext":
        """Build a bitext from pairs of lists of units, without pairs that have an empty side."""
        # Lists of Python integers would take ten times the memory.
        units, starts = (array("i"), array("i")), (array("q", [0]), array("q", [0]))
        for pair in pairs:
            if all(map(len, pair)):
                for side, side_units, side_starts in zip(pair, units, starts, strict=True):
                    side_units.extend(side)
                    side_starts.append(len(side_units))
        source, target, source_starts, target_starts = map(np.asarray, (*units, *starts))
        return cls(source, source_starts, target, target_starts)

    def __len__(self) -> int:
        return len(self.source_starts) - 1


def expected_counts(bitext: Bitext, *, iterations: int, diagonal_tension: float = 0.0) -> csr_array:
    r"""Expected number of alignments of each target unit to each source unit.

    Every target unit aligns to one source unit of its sentence or to none. Translation
    probabilities t(f | e) are estimated by `iterations` of EM, starting from equal probabilities.
    With a `diagonal_tension` λ, the prior of source unit i of n for target unit j of m is exp(-λ
    |i/n - j/m|), scaled to a sum of 0.92.

    Returns the expected counts of the last iteration [largest source unit + 1, largest target unit
    + 1], float64, without those of improbable translations: t(f | e) below the fourth power of the
    highest. In a text with more than `_MAX_PAIRS` pairs of units, the rarest pairs are not aligned.

    Examples
    --------
    >>> bitext = Bitext.from_pairs([([0, 1], [0, 1]), ([0], [0]), ([1, 2], [1, 2])])
    >>> expected_counts(bitext, iterations=20).toarray().round(1).tolist()
    [[1.3, 0.0, 0.0], [0.0, 1.3, 0.0], [0.0, 0.0, 1.0]]
    """
    if not len(bitext):
        return csr_array((0, 0))
    shape = (int(bitext.source.max()) + 1, int(bitext.target.max()) + 1)
    indptr, columns = _cooccurring_pairs(bitext, shape)
    arrays = (bitext.source, bitext.source_starts, bitext.target, bitext.target_starts)
    probabilities, null_probabilities = np.ones(len(columns)), np.ones(shape[1])
    counts = np.zeros(len(columns))
    rows = np.repeat(np.arange(shape[0], dtype=np.int32), np.diff(indptr))
    for _ in range(iterations):
        counts, null_counts = np.zeros(len(columns)), np.zeros(shape[1])
        translation, no_translation = (probabilities, counts), (null_probabilities, null_counts)
        _add_expected_counts(
            arrays, (indptr, columns), translation, no_translation, float(diagonal_tension)
        )
        totals = np.bincount(rows, counts, minlength=shape[0])
        probabilities = counts / np.where(totals > 0, totals, 1)[rows]
        null_probabilities = null_counts / max(null_counts.sum(), 1e-300)
    highest = np.zeros(shape[0])
    np.maximum.at(highest, rows, probabilities)
    is_kept = (counts > 0) & (probabilities >= highest[rows] ** _BEAM)
    return csr_array((counts[is_kept], (rows[is_kept], columns[is_kept])), shape=shape)


def _cooccurring_pairs(bitext: Bitext, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of units that co-occur in a sentence, as `indptr` and `indices` of a sparse array."""
    sides = (bitext.source, bitext.source_starts), (bitext.target, bitext.target_starts)
    source, target = (  # [sentences, units]
        csr_array((np.ones(len(units), np.int32), units, starts), shape=(len(bitext), size))
        for (units, starts), size in zip(sides, shape, strict=True)
    )
    sentences_of_unit = csr_array(source.T)
    minimum_count = 1
    while True:
        sizes, columns = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
        for start in range(0, shape[0], _UNITS_AT_ONCE):
            counts = csr_array(sentences_of_unit[start : start + _UNITS_AT_ONCE] @ target)
            counts.data *= counts.data >= minimum_count
            counts.eliminate_zeros()
            counts.sort_indices()
            sizes.append(np.diff(counts.indptr))
            columns.append(counts.indices.astype(np.int32))
            if sum(map(len, columns)) > _MAX_PAIRS:
                break
        else:
            return np.cumsum(np.concatenate(sizes)), np.concatenate(columns)
        minimum_count *= 2


@njit(nogil=True)
def _add_expected_counts(bitext, pairs, translation, no_translation, tension):
    """Add the expected counts of all sentences to the counts of both translations."""
    source, source_starts, target, target_starts = bitext
    indptr, columns = pairs
    probabilities, counts = translation
    null_probabilities, null_counts = no_translation
    longest = 0
    for sentence in range(len(source_starts) - 1):
        longest = max(longest, source_starts[sentence + 1] - source_starts[sentence])
    pair_of_source, mass = np.empty(longest, dtype=np.int64), np.empty(longest)
    for sentence in range(len(source_starts) - 1):
        first_source = source_starts[sentence]
        n = source_starts[sentence + 1] - source_starts[sentence]
        first_target = target_starts[sentence]
        m = target_starts[sentence + 1] - target_starts[sentence]
        for j in range(m):
            unit, null, scale = target[first_target + j], 1 / (n + 1), 1 / (n + 1)
            mass[:n] = 1.0
            if tension > 0:
                for i in range(n):
                    mass[i] = math.exp(-tension * abs((i + 1) / n - (j + 1) / m))
                null, scale = _NULL, (1 - _NULL) / mass[:n].sum()
            total = null * null_probabilities[unit]
            for i in range(n):
                low = indptr[source[first_source + i]]
                high = indptr[source[first_source + i] + 1] - 1
                while low < high:  # find the pair of units among those of the source unit
                    middle = (low + high) // 2
                    if columns[middle] < unit:
                        low = middle + 1
                    else:
                        high = middle
                pair_of_source[i] = low
                if low == high and columns[low] == unit:
                    mass[i] *= scale * probabilities[low]
                else:
                    mass[i] = 0.0
                total += mass[i]
            if total > 0:
                null_counts[unit] += null * null_probabilities[unit] / total
                for i in range(n):
                    if mass[i] > 0:
                        counts[pair_of_source[i]] += mass[i] / total
