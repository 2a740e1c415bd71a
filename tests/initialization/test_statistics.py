import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, random_array

from lexigraft.initialization.explanation import recipe_statistics, row_geometry
from lexigraft.initialization.recipe import DenseRows, RecipePair
from tests.initialization.recipes import expansion

NOTHING = np.zeros(0, int)
PIECES = [bytes([65 + i]) for i in range(40)]


def statistics(recipe, fallback_ids=NOTHING):
    return recipe_statistics(recipe, fallback_ids, PIECES)


def cosine(*given):
    return row_geometry(*given)["cosine_to_mean"]


def norm(*given):
    return row_geometry(*given)["relative_norm"]


def test_statistics_of_a_worked_example():
    rows = csr_array(
        np.array(
            [
                [0.5, 0.5, 0, 0, 0],  # a mix of two
                [0, 1, 0, 0, 0],  # a copy
                [0, 0, 0, 0, 1],  # the mean of all four, as a fallback
                [2, -1, 0, 0, 0],  # outside the hull, although it sums to one
            ],
            dtype=float,
        )
    )
    recipe = expansion(rows, np.arange(4, 8), 8, np.arange(4))
    found = statistics(recipe, np.array([6]))
    assert found["new_tokens"] == 4
    assert (found["share_recipe"], found["share_copy"], found["share_fallback"]) == (
        0.5,
        0.25,
        0.25,
    )
    assert found["mean_nonzeros"] == (2 + 1 + 4 + 2) / 4
    assert found["share_in_hull"] == 0.75
    assert (found["largest_hub"], found["largest_hub_token"]) == (4, "B")


def test_statistics_do_not_depend_on_how_rows_are_cut_into_blocks(monkeypatch):
    rng = np.random.default_rng(5)
    dense = rng.random((9, 31)) * (rng.random((9, 31)) < 0.4) + 1e-3
    rows = csr_array(dense / dense.sum(axis=1, keepdims=True))
    recipe = expansion(rows, np.arange(30, 39), 39, np.arange(30))
    whole = statistics(recipe)
    monkeypatch.setattr("lexigraft.initialization.recipe._NONZEROS_AT_ONCE", 40)
    assert len(recipe.row_blocks(recipe.new_ids)) > 3
    assert statistics(recipe) == pytest.approx(whole)


def test_the_entropy_of_weights_of_both_signs_is_that_of_their_magnitudes():
    rows = csr_array(np.array([[2.0, -1.0, 0]]))
    found = statistics(expansion(rows, np.arange(2, 3), 3, np.arange(2)))
    expected = -(2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3))
    assert found["mean_entropy"] == pytest.approx(expected)


def test_the_cosine_to_the_mean_of_a_worked_example():
    # The mean of the two source rows is (1, 1); the new rows are (2, 0), (1, 1) and (0, 2).
    matrix = np.array([[2.0, 0], [0, 2], [9, 9]], np.float32)
    rows = csr_array(np.array([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 1, 0, 0]]))
    recipe = expansion(rows, np.arange(3, 6), 6, np.arange(2))
    expected = (2 * np.sqrt(0.5) + 1) / 3
    assert cosine(recipe, matrix, np.arange(2)) == pytest.approx(expected)
    drawn = DenseRows({"input": np.array([[2.0, 0], [1, 1], [0, 2]])}, recipe.source_of, 3)
    assert cosine(drawn, matrix, np.arange(2)) == pytest.approx(expected)
    assert norm(drawn, matrix, np.arange(2)) == pytest.approx((2 + np.sqrt(2) + 2) / 3 / 2)
    assert cosine(recipe, torch.from_numpy(matrix), np.arange(2)) == pytest.approx(expected)


def test_cosines_do_not_depend_on_how_columns_are_cut_into_blocks(monkeypatch, matrix):
    rng = np.random.default_rng(7)
    rows = csr_array(random_array((6, 31), density=0.3, rng=rng) + csr_array(np.eye(6, 31)))
    recipe = expansion(rows, np.arange(30, 36), 36, np.arange(30))
    source = matrix(30, h=17)
    made = recipe.apply(source)[30:]
    mean = source.mean(axis=0)
    lengths = np.linalg.norm(made, axis=1) * np.linalg.norm(mean)
    expected = pytest.approx((made @ mean / lengths).mean(), rel=1e-5)
    assert cosine(recipe, source, np.arange(30)) == expected
    monkeypatch.setattr("lexigraft.initialization.matrix._BLOCK_VALUES", 64)
    assert cosine(recipe, source, np.arange(30)) == expected


def test_each_of_two_recipes_has_its_cosine(matrix):
    def copying(source_id):
        rows = csr_array(([1.0], ([0], [source_id])), shape=(1, 5))
        return expansion(rows, np.arange(4, 5), 5, np.arange(4))

    source = matrix(4)
    pair = RecipePair(copying(0), copying(1))
    for which, recipe in (("input", pair.input), ("output", pair.output)):
        expected = cosine(recipe, source, np.arange(4))
        assert cosine(pair, source, np.arange(4), which) == expected
    assert cosine(pair, source, np.arange(4)) != cosine(pair, source, np.arange(4), "output")


def test_the_entropy_is_that_of_the_weights_in_nats():
    rows = csr_array(np.array([[0.5, 0.25, 0.25, 0], [1.0, 0, 0, 0]]))
    recipe = expansion(rows, np.arange(3, 5), 5, np.arange(3))
    expected = (0.5 * np.log(2) + 2 * 0.25 * np.log(4)) / 2
    assert statistics(recipe)["mean_entropy"] == pytest.approx(expected)


def test_shares_add_up_to_one_and_no_entropy_is_above_that_of_equal_weights():
    rng = np.random.default_rng(6)
    dense = rng.random((20, 31)) * (rng.random((20, 31)) < 0.3) + 1e-3 * (np.arange(31) == 0)
    dense[:, 30] = 0
    rows = csr_array(dense / dense.sum(axis=1, keepdims=True))
    found = statistics(expansion(rows, np.arange(30, 50), 50, np.arange(30)), np.arange(30, 33))
    assert found["share_recipe"] + found["share_copy"] + found["share_fallback"] == 1
    assert found["share_fallback"] == 3 / 20
    assert 0 < found["mean_entropy"] <= np.log(30)
    assert found["largest_hub"] == (dense > 0).sum(axis=0).max()
