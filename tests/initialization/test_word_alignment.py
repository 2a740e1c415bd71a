import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from lexigraft.initialization import word_alignment
from lexigraft.initialization.word_alignment import Bitext, expected_counts

PAIRS = [([0, 1], [0, 1]), ([0, 2], [0, 2]), ([3, 2], [3, 2]), ([1], [1, 1]), ([2, 4, 0], [4])]


def counts_of(pairs, **options):
    return expected_counts(Bitext.from_pairs(pairs), **{"iterations": 6, **options})


def by_fast_align(pairs, iterations, tension):
    """The counts that fast_align writes beside its probabilities, one link at a time."""
    table = defaultdict(lambda: 1e-9)
    for _ in range(iterations):
        counts = Counter()
        for source, target in pairs:
            n, m = len(source), len(target)
            for j, f in enumerate(target, 1):
                if tension:
                    near = [math.exp(-tension * abs(i / n - j / m)) for i in range(1, n + 1)]
                    priors = [0.08, *(0.92 * one / sum(near) for one in near)]
                else:
                    priors = [1 / (n + 1)] * (n + 1)
                units = [None, *source]
                mass = [table[e, f] * prior for e, prior in zip(units, priors, strict=True)]
                for e, one in zip(units, mass, strict=True):
                    counts[e, f] += one / sum(mass)
        totals = Counter()
        for (e, _), count in counts.items():
            totals[e] += count
        table = defaultdict(float, {(e, f): c / totals[e] for (e, f), c in counts.items()})
    highest = Counter()
    for (e, _), p in table.items():
        highest[e] = max(highest[e], p)
    # Written are logarithms of at least four times that of the highest.
    return {
        (e, f): count
        for (e, f), count in counts.items()
        if e is not None and math.log(table[e, f]) >= 4 * math.log(highest[e]) - 1e-12
    }


@pytest.mark.parametrize("tension", [0.0, 4.0])
def test_counts_are_those_of_fast_align(tension):
    rng = np.random.default_rng(3)
    random = [(rng.integers(0, 9, 1 + i % 6), rng.integers(0, 8, 1 + i % 5)) for i in range(40)]
    for pairs in (PAIRS, [(one.tolist(), other.tolist()) for one, other in random]):
        found = counts_of(pairs, diagonal_tension=tension).tocoo()
        places = zip(*(units.tolist() for units in found.coords), strict=True)
        assert dict(zip(places, found.data.tolist(), strict=True)) == pytest.approx(
            by_fast_align(pairs, 6, tension)
        )


def test_pairs_with_an_empty_side_are_left_out():
    assert len(Bitext.from_pairs([([], [1]), ([1], []), ([0], [0])])) == 1
    assert counts_of([([], [1])]).shape == (0, 0)


def test_with_bounded_memory_the_rarest_pairs_are_left_out(monkeypatch):
    pairs = [([0, 1], [0, 1])] * 3 + [([0, 1], [2])]
    assert counts_of(pairs)[0, 2] > 0
    monkeypatch.setattr(word_alignment, "_MAX_PAIRS", 4)
    bounded = counts_of(pairs)
    assert bounded.nnz == 4
    assert bounded[:, 2].sum() == 0


def test_units_align_to_those_that_they_co_occur_with():
    found = counts_of([([0, 1], [0, 1]), ([0, 2], [0, 2]), ([1, 2], [1, 2])] * 5, iterations=20)
    assert found.toarray().argmax(axis=0).tolist() == [0, 1, 2]


def test_tension_prefers_similar_positions():
    alone = [([0, 1], [0, 1])]
    assert np.ptp(counts_of(alone).data) == pytest.approx(0)
    found = counts_of(alone, diagonal_tension=4.0).toarray()
    assert found[0, 0] > found[0, 1]
    assert found[1, 1] > found[1, 0]
