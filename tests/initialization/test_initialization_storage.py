import numpy as np
import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.initialization.registry import initializer
from lexigraft.initialization.storage import load_initialization, save_initialization

RECIPES = ["align", "mean", "mean-of-all", "merge"]
ROWS = ["multivariate", "random"]


@pytest.fixture
def pair(byte_level):
    return byte_level([("a", "b")]), byte_level([("a", "b"), ("ab", "c"), ("d", "e")])


@pytest.fixture
def fit(pair):
    def fitted(name):
        return initializer(name).fit(*pair, corpus=["abc ab"], n_source=len(pair[0]) + 1, seed=1)

    return fitted


@pytest.mark.parametrize("name", RECIPES + ROWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_stored_initialization_equals_the_fitted_one(fit, pair, matrix, tmp_path, name, dtype):
    fitted = fit(name)
    matrices = {
        which: torch.from_numpy(matrix(len(pair[0]) + 1, seed=seed)).to(dtype)
        for which, seed in (("input", 1), ("output", 2))
    }
    # Matrices are read from disk in float32, whatever the model computes in.
    stored = {which: values.float().numpy() for which, values in matrices.items()}
    save_initialization(fitted, tmp_path, stored)
    loaded = load_initialization(tmp_path)
    for which, values in matrices.items():
        assert torch.equal(loaded.apply(values, which), fitted.apply(values, which))
    assert np.array_equal(loaded.new_ids, fitted.new_ids)
    assert (loaded.n_source, loaded.n_target) == (fitted.n_source, fitted.n_target)


def test_random_rows_need_matrices_to_be_saved(fit, tmp_path):
    with pytest.raises(UserError, match=r"'random'.*matrices"):
        save_initialization(fit("random"), tmp_path)


def test_an_empty_folder_is_an_error_that_names_it(tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        load_initialization(tmp_path)


damaged = pytest.mark.fault(
    "damage",
    "a recipe or file of drawn rows is truncated at any length, or any of its bits is flipped",
    "a one-line error message names the file, unless nothing depends on the bit",
)


@damaged
@pytest.mark.parametrize("name", ["mean-of-all", "random"])
def test_a_damaged_file_is_an_error_or_unchanged(fit, pair, matrix, tmp_path, name):
    fitted, rows = fit(name), matrix(len(pair[0]) + 1)
    file = save_initialization(fitted, tmp_path, {"input": rows})
    whole = (tmp_path / file).read_bytes()
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(whole), 60):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        (tmp_path / file).write_bytes(damaged)
        try:
            loaded = load_initialization(tmp_path)
        except UserError as error:
            assert file in str(error)
        else:  # a bit that nothing depends on, such as a date inside the archive
            assert loaded.apply(rows).tobytes() == fitted.apply(rows).tobytes()


@pytest.mark.bad_input(
    "hostile", "a pickle in a recipe", "never loaded; a one-line error message names the file"
)
def test_a_pickle_is_never_opened(tmp_path):
    np.savez(tmp_path / "recipe.npz", left_data=np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match=r"recipe\.npz"):
        load_initialization(tmp_path)


@pytest.mark.bad_input(
    "vectors",
    "a recipe that refers to rows outside the matrix",
    "a one-line error message names the file",
)
def test_a_recipe_whose_indices_lie_outside_is_an_error(fit, tmp_path):
    fitted = fit("mean")
    fitted.recipe_.left.indices[0] = 10_000
    save_initialization(fitted, tmp_path)
    with pytest.raises(UserError, match=r"recipe\.npz"):
        load_initialization(tmp_path)


@damaged
@pytest.mark.parametrize("name", ["mean-of-all", "random"])
def test_a_file_cut_off_anywhere_is_an_error_that_names_it(fit, pair, matrix, tmp_path, name):
    file = save_initialization(fit(name), tmp_path, {"input": matrix(len(pair[0]) + 1)})
    whole = (tmp_path / file).read_bytes()
    for length in {0, 1, 7, 100, len(whole) // 2, len(whole) - 1}:
        (tmp_path / file).write_bytes(whole[:length])
        with pytest.raises(UserError, match=file):
            load_initialization(tmp_path)


@pytest.mark.bad_input(
    "vectors",
    "rows whose number or width differs from the model's",
    "a one-line error message gives both values; the model is unchanged",
)
def test_rows_of_another_width_are_an_error(fit, pair, matrix, tmp_path):
    save_initialization(fit("random"), tmp_path, {"input": matrix(len(pair[0]) + 1)})
    with pytest.raises(UserError, match="width"):
        load_initialization(tmp_path).apply(matrix(len(pair[0]) + 1, h=9))
