import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from lexigraft.errors import UserError
from lexigraft.initialization.graft import graft
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.storage import load_initialization, save_initialization


class Mine(RecipeInitializer):
    """`abc` is `ab` in the input, half `c` and half the mean of all in the head; `de` fell back."""

    def _new_rows(self, pair, corpus, auxiliary):
        vocabulary = pair.source_tokenizer.get_vocab()
        rows = {
            "input": np.zeros((2, pair.n_source + 1)),
            "output": np.zeros((2, pair.n_source + 1)),
        }
        rows["input"][0, vocabulary["ab"]] = 1
        rows["output"][0, vocabulary["c"]] = rows["output"][0, -1] = 0.5
        for each in rows.values():
            each[1, vocabulary["d"]] = each[1, vocabulary["e"]] = 0.5
        return {which: csr_array(each) for which, each in rows.items()}, np.array([False, True])


@pytest.fixture
def tokenizers(byte_level):
    return byte_level([("a", "b")]), byte_level([("a", "b"), ("ab", "c"), ("d", "e")])


@pytest.fixture
def fitted(tokenizers):
    return Mine().fit(*tokenizers, n_source=len(tokenizers[0]) + 1)


def test_each_matrix_has_its_recipe(fitted, tokenizers, matrix):
    vocabulary, rows = tokenizers[0].get_vocab(), matrix(fitted.n_source)
    new = fitted.new_ids[0]
    assert np.array_equal(fitted.apply(rows, "input")[new], rows[vocabulary["ab"]])
    everything = rows[: len(vocabulary)].mean(axis=0)
    expected = (rows[vocabulary["c"]] + everything) / 2
    np.testing.assert_allclose(fitted.apply(rows, "output")[new], expected, atol=1e-6)
    assert set(fitted.weights_) == {"input", "output"}
    assert fitted.weights_["output"].shape == (fitted.n_target, fitted.n_source)


def test_a_stored_initialization_equals_the_fitted_one(fitted, matrix, tmp_path):
    assert save_initialization(fitted, tmp_path) == "recipes.npz"
    loaded = load_initialization(tmp_path)
    rows = matrix(fitted.n_source)
    for which in ("input", "output"):
        assert np.array_equal(loaded.apply(rows, which), fitted.apply(rows, which))
    assert np.array_equal(loaded.new_ids, fitted.new_ids)
    assert np.array_equal(loaded.source_of, fitted.source_of)
    first = (tmp_path / "recipes.npz").read_bytes()
    save_initialization(fitted, tmp_path)
    assert (tmp_path / "recipes.npz").read_bytes() == first


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("stored", [True, False])
def test_it_is_grafted_onto_both_matrices(fitted, tokenizers, tiny_llama, tmp_path, tied, stored):
    model = tiny_llama(fitted.n_source, tied=tied)
    head = model.get_output_embeddings().weight.detach().clone()
    input_rows = model.get_input_embeddings().weight.detach().clone()
    save_initialization(fitted, tmp_path)
    graft(model, tokenizers[1], load_initialization(tmp_path) if stored else fitted)
    assert torch.equal(
        model.get_input_embeddings().weight.detach(), fitted.apply(input_rows, "input")
    )
    expected = fitted.apply(input_rows, "input") if tied else fitted.apply(head, "output")
    assert torch.equal(model.get_output_embeddings().weight.detach(), expected)


def test_statistics_are_of_both(fitted):
    found = fitted.statistics()
    assert (found["new_tokens"], found["share_copy"], found["share_fallback"]) == (2, 0.5, 0.5)
    assert (found["output_share_copy"], found["output_share_recipe"]) == (0.0, 0.5)
    # The mean of all leans on every token, and `de` on two of them again.
    assert (found["largest_hub"], found["output_largest_hub"]) == (1, 2)
    assert found["output_largest_hub_token"] == "d"
    assert found["share_in_hull"] == found["output_share_in_hull"] == 1.0


def test_both_recipes_are_explained(fitted):
    assert fitted.explain("de") == "'de' = 0.5 'd' + 0.5 'e'; in the head 'de' = 0.5 'd' + 0.5 'e'"
    assert fitted.parts(int(fitted.new_ids[0])) == [("ab", 1.0)]
    assert fitted.parts(int(fitted.new_ids[0]), "output")[0][0] == "c"
    assert fitted.fallbacks_ == ["de"]


@pytest.mark.fault(
    "damage",
    "a recipe or file of drawn rows is truncated at any length, or any of its bits is flipped",
    "a one-line error message names the file, unless nothing depends on the bit",
)
def test_a_file_cut_off_anywhere_is_an_error_that_names_it(fitted, tmp_path):
    save_initialization(fitted, tmp_path)
    whole = (tmp_path / "recipes.npz").read_bytes()
    for length in {0, 1, 100, len(whole) // 2, len(whole) - 1}:
        (tmp_path / "recipes.npz").write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"recipes\.npz"):
            load_initialization(tmp_path)
