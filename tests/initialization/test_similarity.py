import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lexigraft.initialization import similarity
from lexigraft.initialization.similarity import softmax_of_nearest, sparsemax

scores = arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(1, 9)),
    elements=st.floats(-50, 50, allow_nan=False).map(lambda x: round(x, 3)),
)


def by_bisection(row):
    """The threshold at which what is above it sums to one, found by halving."""
    low, high = row.max() - 1, row.max()
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(row - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(row - low, 0)


@given(scores)
def test_sparsemax_equals_its_definition(values):
    expected = np.array([by_bisection(row) for row in values])
    np.testing.assert_allclose(sparsemax(values).toarray(), expected, atol=1e-9)


@pytest.mark.parametrize(
    "row, expected",
    [
        ([0.8, 0.6], [0.6, 0.4]),
        ([1.0, 0.0], [1.0, 0.0]),
        ([2.0, 0.5, 0.4], [1.0, 0.0, 0.0]),
        ([0.5, 0.5, 0.5, -0.5], [1 / 3, 1 / 3, 1 / 3, 0]),
        ([0.9, 0.7, 0.5], [8 / 15, 1 / 3, 2 / 15]),
        ([-7.0], [1.0]),
    ],
)
def test_worked_examples_of_sparsemax(row, expected):
    np.testing.assert_allclose(sparsemax(np.array([row])).toarray()[0], expected, atol=1e-12)


@pytest.mark.parametrize("spread", [1e-4, 0.01, 0.1, 1.0])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_sparsemax_of_long_rows_with_few_or_thousands_above_zero(spread, kind):
    values = np.random.default_rng(0).normal(0.5, spread, (3, 20_000)).astype(kind)
    found = sparsemax(values)
    expected = np.array([by_bisection(row.astype(np.float64)) for row in values])
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-9)
    assert found.nnz == np.count_nonzero(expected > 1e-12)


@pytest.mark.parametrize("spread", [0.05, 1.0, 20.0])
def test_sparsemax_equals_entmax(spread):
    import torch
    from entmax import sparsemax as reference

    values = spread * np.random.default_rng(0).normal(size=(50, 300))
    expected = reference(torch.from_numpy(values), dim=1).numpy()
    np.testing.assert_allclose(sparsemax(values).toarray(), expected, atol=1e-12)


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_weights_equal_the_definition_for_any_block_size(monkeypatch):
    draws = np.random.default_rng(0)
    queries, anchors = unit(draws.normal(size=(23, 5))), unit(draws.normal(size=(40, 5)))
    expected = np.zeros((23, 40))
    for i, query in enumerate(queries.astype(float)):
        cosines = anchors.astype(float) @ query
        near = sorted(range(40), key=lambda j: -cosines[j])[:7]
        exponents = {j: np.exp(cosines[j] / 0.3) for j in near}
        for j in near:
            expected[i, j] = exponents[j] / sum(exponents.values())
    for scores in (1 << 25, 1, 100):
        monkeypatch.setattr(similarity, "_SCORES_AT_ONCE", scores)
        found = softmax_of_nearest(queries, anchors, 7, 0.3)
        np.testing.assert_allclose(found.toarray(), expected, atol=1e-6)


@given(scores)
def test_sparsemax_rows_are_probabilities(values):
    weights = sparsemax(values)
    assert weights.data.min() > 0
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-12)


@given(scores, st.floats(-100, 100))
def test_sparsemax_ignores_a_constant_added_to_all_scores(values, by):
    found = sparsemax(values + by).toarray()
    np.testing.assert_allclose(found, sparsemax(values).toarray(), atol=1e-9)


def test_nearest_tokens_get_the_softmax_of_their_cosines():
    queries = np.array([[1, 0]], np.float32)
    anchors = np.array([[0, 1], [0.6, 0.8], [-1, 0], [0.8, 0.6]], np.float32)
    weights = softmax_of_nearest(queries, anchors, 2, 0.1).toarray()[0]
    assert weights[[0, 2]].tolist() == [0, 0]
    assert weights[3] / weights[1] == pytest.approx(np.exp(2), rel=1e-5)
    assert weights.sum() == pytest.approx(1)
