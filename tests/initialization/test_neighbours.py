import numpy as np
import pytest

from lexigraft.initialization import similarity
from lexigraft.initialization.neighbours import softmax_of_nearest


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_the_nearest_get_the_softmax_of_their_cosines():
    queries = np.array([[1, 0]], np.float32)
    anchors = np.array([[0, 1], [0.6, 0.8], [-1, 0], [0.8, 0.6]], np.float32)
    weights = softmax_of_nearest(queries, anchors, 2, 0.1).toarray()[0]
    assert weights[[0, 2]].tolist() == [0, 0]
    assert weights[3] / weights[1] == pytest.approx(np.exp(2), rel=1e-5)
    assert weights.sum() == pytest.approx(1)


def test_rows_equal_the_definition_row_by_row_whatever_the_block(monkeypatch):
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


def test_fewer_anchors_than_neighbours_all_count():
    found = softmax_of_nearest(np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32), 10, 1.0)
    assert (found.toarray() > 0).all()


def test_a_small_temperature_leaves_the_nearest_alone():
    anchors = unit(np.random.default_rng(1).normal(size=(30, 4)))
    found = softmax_of_nearest(anchors[:5], anchors, 10, 1e-4).toarray()
    np.testing.assert_allclose(found, np.eye(5, 30), atol=1e-9)


def test_no_query_gives_no_row():
    empty = np.zeros((0, 2), np.float32)
    assert softmax_of_nearest(empty, np.eye(2, dtype=np.float32), 1, 0.1).shape == (0, 2)
