import numpy as np
import pytest

from lexigraft.initialization.similarity import top_k, top_k_candidates


@pytest.fixture(params=["normal", "tied", "falling", "one chunk high"])
def scores(request):
    draws = np.random.default_rng(0)
    made = {
        "normal": lambda: draws.standard_normal((5, 3000)),
        "tied": lambda: draws.integers(0, 9, (5, 3000)),
        "falling": lambda: np.tile(np.arange(3000, 0, -1), (5, 1)),
        "one chunk high": lambda: np.where(np.arange(3000) < 64, 1, 0) + draws.random((5, 3000)),
    }[request.param]()
    return made.astype(np.float32)


@pytest.mark.parametrize("k", [1, 10, 100, 2999, 3000])
def test_they_are_the_highest(scores, k):
    columns = top_k(scores, k)
    assert columns.shape == (5, k)
    for row, chosen in zip(scores, columns, strict=True):
        assert len(set(chosen.tolist())) == k
        np.testing.assert_array_equal(np.sort(row[chosen]), np.sort(row)[3000 - k :])


@pytest.mark.parametrize("k", [1, 10, 100])
def test_what_is_left_out_is_lower_than_what_is_not(scores, k):
    rows, columns = top_k_candidates(scores, k)
    held = np.zeros(scores.shape, dtype=bool)
    held[rows, columns] = True
    assert (held.sum(axis=1) >= k).all()
    for row, inside in zip(scores, held, strict=True):
        assert row[inside].min() >= row[~inside].max(initial=-np.inf)


def test_of_many_scores_little_more_than_asked_for_is_looked_at():
    draws = np.random.default_rng(1)
    rows, _ = top_k_candidates(draws.standard_normal((3, 100_000)).astype(np.float32), 10)
    assert len(rows) < 3 * 15


def test_without_rows_there_is_nothing():
    assert top_k(np.empty((0, 500), np.float32), 3).shape == (0, 3)
