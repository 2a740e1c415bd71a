from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from lexigraft.errors import UserError
from lexigraft.initialization.recipe import Recipe
from tests.initialization.recipes import expansion

N_SOURCE, N_PADDED = 20, 24


@st.composite
def recipes(draw):
    """Expansions with random convex rows, some of which lean on the mean of all."""
    k = draw(st.integers(0, 8))
    seed = draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    rows = rng.random((k, N_PADDED + 1)) * (rng.random((k, N_PADDED + 1)) < 0.2)
    rows[:, N_SOURCE:N_PADDED] = 0
    rows[:, N_PADDED] *= draw(st.booleans())
    rows[:, 0] += 0.1
    rows /= rows.sum(axis=1, keepdims=True)
    start = draw(st.integers(N_SOURCE, N_PADDED))
    new_ids = np.arange(start, start + k)
    n_target = max(N_PADDED, start + k)
    return expansion(csr_array(rows), new_ids, n_target, np.arange(N_SOURCE))


def in_bits(values):
    return values.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[values.element_size()])


@given(recipes())
def test_applied_to_the_identity_it_returns_the_recipe(recipe):
    applied = recipe.apply(np.eye(recipe.n_source))
    np.testing.assert_allclose(applied, recipe.weights.toarray(), atol=1e-15)


@given(recipes(), st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]))
def test_rows_of_source_and_padding_are_bit_identical_in_torch(recipe, dtype):
    matrix = torch.randn(recipe.n_source, 5, generator=torch.manual_seed(1)).to(dtype)
    matrix[0, 0] = -0.0
    matrix[N_SOURCE, :2] = torch.tensor([float("nan"), float("inf")], dtype=dtype)  # padding
    applied = recipe.apply(matrix)
    old = np.setdiff1d(np.arange(recipe.n_source), recipe.new_ids)
    assert applied.dtype == dtype
    assert torch.equal(in_bits(applied[old]), in_bits(matrix[old]))


@given(recipes())
def test_numpy_and_torch_give_the_same_rows(recipe):
    matrix = np.random.default_rng(2).normal(size=(recipe.n_source, 5)).astype(np.float32)
    assert np.array_equal(recipe.apply(torch.from_numpy(matrix)).numpy(), recipe.apply(matrix))


def test_blocks_of_columns_do_not_change_the_result(monkeypatch):
    rng = np.random.default_rng(3)
    rows = csr_array(random_array((6, 31), density=0.3, rng=rng))
    recipe = expansion(rows, np.arange(30, 36), 36, np.arange(30))
    matrix = rng.normal(size=(30, 17))
    whole = recipe.apply(matrix)
    monkeypatch.setattr("lexigraft.initialization.matrix._BLOCK_VALUES", 64)
    np.testing.assert_allclose(recipe.apply(matrix), whole, rtol=1e-13)


def test_the_mean_of_all_for_many_tokens_stays_factored():
    k, n = 5_000, 128_000
    rows = csr_array((np.ones(k), (np.arange(k), np.full(k, n))), shape=(k, n + 1))
    recipe = expansion(rows, np.arange(n, n + k), n + k, np.arange(n))
    assert recipe.left.nnz + recipe.right.nnz < 4 * n
    matrix = np.random.default_rng(0).normal(size=(n, 2)).astype(np.float32)
    applied = recipe.apply(matrix)
    np.testing.assert_allclose(applied[n:], np.tile(matrix.mean(0), (k, 1)), atol=1e-5)


@pytest.mark.parametrize(
    "matrix", [np.zeros((4, 2), int), np.zeros(4), [[0.0]] * 4, torch.zeros(4, 2).int()]
)
def test_only_floating_point_matrices_are_accepted(matrix):
    recipe = expansion(csr_array((0, 5)), np.zeros(0, np.int64), 4, np.arange(4))
    with pytest.raises(UserError, match="matrix: give"):
        recipe.apply(matrix)


@given(recipes())
@settings(max_examples=20)
def test_a_saved_recipe_is_read_back_and_equal_recipes_are_equal_files(tmp_path_factory, recipe):
    folder = tmp_path_factory.mktemp("recipe")
    recipe.save(folder / "one.npz")
    again = Recipe.load(folder / "one.npz")
    again.save(folder / "two.npz")
    assert (again.weights != recipe.weights).nnz == 0
    assert np.array_equal(again.new_ids, recipe.new_ids)
    assert (folder / "one.npz").read_bytes() == (folder / "two.npz").read_bytes()


def test_drawn_ids_that_are_not_new_are_refused(tmp_path):
    rows = csr_array(([1.0], ([0], [4])), shape=(1, 5))
    recipe = expansion(rows, np.array([4]), 5, np.arange(4))
    replace(recipe, drawn_ids=np.array([3]), seed=7).save(tmp_path / "wrong.npz")
    with pytest.raises(ValueError, match="drawn ids"):
        Recipe.load(tmp_path / "wrong.npz")


@given(recipes())
def test_rows_are_non_negative_and_sum_to_one(recipe):
    weights = recipe.weights
    assert (weights.data >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@given(recipe=recipes())
def test_rows_of_source_and_padding_are_bit_identical_in_numpy(recipe, dtype):
    matrix = np.random.default_rng(1).normal(size=(recipe.n_source, 5)).astype(dtype)
    matrix[0, 0], matrix[N_SOURCE, 0] = -0.0, np.nan  # the latter is a padding row
    applied = recipe.apply(matrix)
    old = np.setdiff1d(np.arange(recipe.n_source), recipe.new_ids)
    assert applied.dtype == dtype
    assert applied[old].tobytes() == matrix[old].tobytes()


def test_low_precision_rows_are_summed_in_float32_and_rounded_once():
    # 256 ones and a 1/256: in bfloat16 arithmetic the sum would stand still.
    rows = csr_array(np.append(np.full(256, 1 / 256), 0.0)[None])
    recipe = expansion(rows, np.array([256]), 257, np.arange(256))
    matrix = torch.linspace(0, 1, 256)[:, None].to(torch.bfloat16)
    expected = matrix.double().mean().to(torch.bfloat16)
    assert recipe.apply(matrix)[256, 0] == expected
