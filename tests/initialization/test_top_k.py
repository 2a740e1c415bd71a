import numpy as np
import pytest

from lexigraft.initialization.similarity import highest, top_k, top_k_candidates


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
def test_top_k_are_the_highest_scores(scores, k):
    columns = top_k(scores, k)
    assert columns.shape == (5, k)
    for row, chosen in zip(scores, columns, strict=True):
        assert len(set(chosen.tolist())) == k
        # Of two that differ by rounding alone, either may be the k-th.
        np.testing.assert_allclose(np.sort(row[chosen]), np.sort(row)[3000 - k :], atol=1e-5)
        assert (np.diff(chosen) > 0).all()


@pytest.mark.parametrize("m", [12, 3000])
def test_of_tied_scores_the_lower_columns_are_chosen(m):
    draws = np.random.default_rng(2)
    scores = draws.random((200, m)).astype(np.float32) / 2
    tied = np.stack([np.sort(draws.choice(m, 8, replace=False)) for _ in range(200)])
    rounding = draws.integers(-3, 4, tied.shape) * np.float32(2**-24)
    np.put_along_axis(scores, tied, np.float32(0.75) + rounding, axis=1)
    np.testing.assert_array_equal(top_k(scores, 5), tied[:, :5])
    np.testing.assert_array_equal(highest(scores), tied[:, 0])
    above = np.setdiff1d(np.arange(m), tied[0])[-1]
    scores[0, above] = 1  # what is higher than the ties comes first
    assert top_k(scores[:1], 2)[0].tolist() == sorted([above, tied[0, 0]])


@pytest.mark.parametrize("k", [1, 10, 100])
def test_excluded_scores_are_lower_than_candidates(scores, k):
    rows, columns = top_k_candidates(scores, k)
    held = np.zeros(scores.shape, dtype=bool)
    held[rows, columns] = True
    assert (held.sum(axis=1) >= k).all()
    for row, inside in zip(scores, held, strict=True):
        assert row[inside].min() >= row[~inside].max(initial=-np.inf)


def test_scores_that_differ_by_more_than_rounding_are_not_ties():
    scores = np.array([[0.5, 0.50001, 0.2]], np.float32)
    assert highest(scores).tolist() == [1]
    assert top_k(scores, 1).tolist() == [[1]]
