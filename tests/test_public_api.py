"""The public API: the example of the documentation, on a real tokenizer, text and small model."""

import doctest
import inspect
import re
from importlib import import_module

import numpy as np
import pytest
import torch

import lexigraft
from tests.conftest import REPOSITORY

LIBRARY_PAGE = (REPOSITORY / "docs/library.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def expanded(smollm2_cut, telugu):
    return lexigraft.expand_tokenizer(
        smollm2_cut, telugu, new_tokens=100, auxiliary_size=50_000, merges="continued"
    )


@pytest.fixture(scope="module")
def align(smollm2_cut, expanded, telugu):
    align = lexigraft.initializer("align")
    assert align.fit(smollm2_cut, expanded, corpus=telugu) is align
    return align


def test_every_public_name_can_be_imported():
    names = {"UserError", "expand_tokenizer", "train_tokenizer", "initializer", "graft", "export"}
    assert names <= set(lexigraft.__all__)
    assert all(callable(getattr(lexigraft, name)) for name in names)


def test_an_expansion_adds_the_tokens_asked_for(smollm2_cut, expanded):
    assert len(expanded) == len(smollm2_cut) + 100


def test_a_tokenizer_can_be_trained_from_an_iterable_of_sentences(telugu):
    tokenizer = lexigraft.train_tokenizer(iter(telugu), family="sentencepiece-bpe", size=600)
    assert len(tokenizer) == 600


def test_a_fitted_initializer_has_weights_and_fallbacks(smollm2_cut, expanded, align):
    assert align.weights_.shape == (len(expanded), len(smollm2_cut))
    np.testing.assert_allclose(align.weights_.sum(axis=1), 1)
    assert set(align.fallbacks_) <= set(expanded.get_vocab())


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_apply_takes_arrays_and_tensors_and_copies_shared_rows(
    smollm2_cut, expanded, align, convert
):
    rng = np.random.default_rng(0)
    matrix = convert(rng.normal(size=(len(smollm2_cut), 8)).astype(np.float32))
    for new in (align.apply(matrix), align.apply(matrix, which="output")):
        assert type(new) is type(matrix)
        assert new.dtype == matrix.dtype
        assert new.shape == (len(expanded), 8)
        assert (new[: len(smollm2_cut)] == matrix).all()


def test_explain_names_the_source_tokens_of_a_text(expanded, align):
    token = max((t for t in align.pair_.new_tokens if t not in align.fallbacks_), key=len)
    text = expanded.convert_tokens_to_string([token]).strip()
    assert align.explain(text).startswith("'")
    assert " = " in align.explain(text)


@pytest.mark.parametrize("tied", [True, False])
def test_graft_replaces_both_matrices_and_the_configuration(
    smollm2_cut, expanded, align, tiny_llama, tied
):
    source = tiny_llama(len(smollm2_cut), tied=tied)
    embeddings = source.get_input_embeddings().weight.detach().clone()
    head = source.get_output_embeddings().weight.detach().clone()
    model = lexigraft.graft(source, expanded, align)
    assert model.config.vocab_size == len(expanded)
    new_embeddings = model.get_input_embeddings().weight
    new_head = model.get_output_embeddings().weight
    assert (new_head is new_embeddings) == tied
    assert torch.equal(new_embeddings, align.apply(embeddings))
    assert torch.equal(new_head, align.apply(head, which="output"))


def test_methods_with_a_recipe_for_each_matrix_have_weights_for_each(smollm2_cut, expanded, telugu):
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(len(smollm2_cut), 8)).astype(np.float32)
    cw2v = lexigraft.initializer("cw2v", rank=4, epochs=0)
    cw2v.fit(smollm2_cut, expanded, corpus=telugu, auxiliary={"matrices": {"input": matrix}})
    assert set(cw2v.weights_) == {"input", "output"}
    assert cw2v.apply(matrix, which="output").shape == (len(expanded), 8)


def test_methods_that_draw_rows_have_no_weights_and_depend_on_the_seed(smollm2_cut, expanded):
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(len(smollm2_cut), 8)).astype(np.float32)

    def rows(seed):
        fitted = lexigraft.initializer("random").fit(smollm2_cut, expanded, seed=seed)
        assert fitted.weights_ is None
        return fitted.apply(matrix)

    np.testing.assert_array_equal(rows(1), rows(1))
    assert (rows(1) != rows(2)).any()


def test_export_takes_the_folder_of_a_cell_an_output_folder_and_two_formats():
    parameters = inspect.signature(lexigraft.export).parameters
    assert list(parameters) == ["cell_folder", "out", "gguf", "delta"]


def documented() -> list[tuple[str, object]]:
    """Names of functions in the table of docs/library.md, and what they stand for."""
    rows = (line for line in LIBRARY_PAGE.splitlines() if line.startswith("| `"))
    names = [name for row in rows for name in re.findall(r"`([a-z_.]+)\(", row.split("|")[1])]
    return [(name, attribute(name)) for name in names if not name.startswith(".")]


def attribute(name: str) -> object:
    package, _, own = name.rpartition(".")
    return getattr(import_module(f"lexigraft.{package}" if package else "lexigraft"), own)


def test_every_function_on_the_library_page_has_an_example():
    found = documented()
    assert len(found) > 10
    assert [name for name, function in found if ">>> " not in function.__doc__] == []


# Those of `load_cell` and `export` run in tests/training/test_export.py, on a trained cell.
@pytest.mark.parametrize(
    "module",
    sorted(
        {function.__module__ for _, function in documented()}
        - {"lexigraft.training.store", "lexigraft.training.export"}
        | {
            "lexigraft.errors",
            "lexigraft.initialization.interface",
            "lexigraft.initialization.similarity",
        }
    ),
)
def test_examples_in_docstrings_run(module, tmp_path, monkeypatch, request):
    if module == "lexigraft.auxiliary.fasttext":
        request.getfixturevalue("fasttext")
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
