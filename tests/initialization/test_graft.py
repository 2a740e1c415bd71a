import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import PhiConfig, PhiForCausalLM

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.initialization.graft import graft
from lexigraft.initialization.interface import RowInitializer
from lexigraft.initialization.registry import declaration, initializer, methods
from lexigraft.initialization.storage import load_initialization, save_initialization

PADDING = 2
# What reads the source model itself, or a hypernetwork, is grafted in the tests of its own.
TRANSLATIONS = {"parallel": [("x y", "abc de")], "dictionary": [("x", "abc")]}
METHODS = [name for name in methods() if not declaration(name).reads and name != "zett"]


@pytest.fixture(scope="module")
def pair(byte_level):
    merges = [("a", "b")]
    return byte_level(merges), byte_level([*merges, ("ab", "c"), ("d", "e"), ("Ġ", "de")])


@pytest.fixture
def model(pair, tiny_llama):
    def build(tied=True):
        return tiny_llama(len(pair[0]) + PADDING, tied=tied)

    return build


def fit(name, pair, **options):
    source, target = (
        TokenVectors(np.arange(size), np.eye(size, 3, dtype=np.float32) + 0.1)
        for size in map(len, pair)
    )
    return initializer(name, **options).fit(
        *pair,
        corpus=["abc de", "abde"],
        n_source=len(pair[0]) + PADDING,
        auxiliary={"source": source, "target": target, "plm": target, **TRANSLATIONS},
        seed=2,
    )


# The published Merge makes head rows of input rows, and the published Align begins with it.
@pytest.mark.parametrize("name", [name for name in METHODS if "as-published" not in name])
def test_the_head_of_an_untied_model_comes_from_the_head(pair, model, name):
    source, fitted = model(tied=False), fit(name, pair)
    expected = {
        "input": fitted.apply(source.model.embed_tokens.weight, "input"),
        "output": fitted.apply(source.lm_head.weight, "output"),
    }
    grafted = graft(source, pair[1], fitted)
    assert torch.equal(grafted.model.embed_tokens.weight, expected["input"])
    assert torch.equal(grafted.lm_head.weight, expected["output"])


def test_source_rows_of_a_bfloat16_model_are_bit_identical(pair, model):
    source = model(tied=False).to(torch.bfloat16)
    before = [source.model.embed_tokens.weight.clone(), source.lm_head.weight.clone()]
    grafted = graft(source, pair[1], fit("random", pair))
    after = [grafted.model.embed_tokens.weight, grafted.lm_head.weight]
    n = len(pair[0])
    for old, new in zip(before, after, strict=True):
        assert new.dtype == torch.bfloat16
        assert torch.equal(old[:n].view(torch.int16), new[:n].view(torch.int16))


def test_a_matrix_with_enough_padding_keeps_its_size(pair, tiny_llama):
    rows = len(pair[0]) + 50
    source = tiny_llama(rows)
    before = source.model.embed_tokens.weight.clone()
    fitted = initializer("mean").fit(*pair, n_source=rows)
    after = graft(source, pair[1], fitted).model.embed_tokens.weight
    n, size = len(pair[0]), len(pair[1])
    assert after.shape == before.shape
    assert torch.equal(after[size:], before[size:])
    assert not torch.equal(after[n:size], before[n:size])


def test_a_model_with_two_matrices_stays_untied_despite_its_config(pair, model):
    source = model(tied=True)
    source.lm_head.weight = torch.nn.Parameter(torch.randn_like(source.lm_head.weight))
    expected = fit("mean", pair).apply(source.lm_head.weight, "output")
    grafted = graft(source, pair[1], fit("mean", pair))
    assert torch.equal(grafted.lm_head.weight, expected)
    assert not grafted.config.tie_word_embeddings


@pytest.mark.parametrize("name", ["mean", "random"])
def test_the_bias_of_a_head_grows_with_it(pair, name):
    rows = len(pair[0]) + PADDING
    config = PhiConfig(
        vocab_size=rows, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2,
    )  # fmt: skip
    source = PhiForCausalLM(config)
    bias = torch.randn(rows)
    with torch.no_grad():
        source.lm_head.bias.copy_(bias)
    grafted = graft(source, pair[1], fit(name, pair)).lm_head.bias
    n = len(pair[0])
    ids = pair[0].convert_tokens_to_ids(["ab", "c"])
    expected = bias[ids].mean() if name == "mean" else bias.mean()
    assert torch.equal(grafted[:n], bias[:n])
    assert grafted[n].item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.bad_input(
    "vectors",
    "rows whose number or width differs from the model's",
    "a one-line error message gives both values; the model is unchanged",
)
def test_a_model_with_another_number_of_rows_is_an_error_and_unchanged(pair, tiny_llama):
    source = tiny_llama(len(pair[0]) + 9)
    before = source.model.embed_tokens.weight.clone()
    with pytest.raises(UserError, match=f"n_source={len(pair[0]) + 9}"):
        graft(source, pair[1], fit("mean", pair))
    assert torch.equal(source.model.embed_tokens.weight, before)


def matrices_of(pair, bad=None):
    """Source matrices of random rows, of which one may hold NaN."""
    rng = np.random.default_rng(4)
    size = (len(pair[0]) + PADDING, 6)
    both = {which: rng.normal(size=size).astype(np.float32) for which in ("input", "output")}
    for matrix in both.values():
        matrix[3] = 0  # of a token that was never trained
        if bad is not None:
            matrix[bad, 2] = np.nan
    return both


def new_rows(name, pair, matrices):
    fitted = fit(name, pair)
    rows = fitted.rows(matrices) if isinstance(fitted, RowInitializer) else fitted
    return [rows.apply(matrix, which)[fitted.new_ids] for which, matrix in matrices.items()]


@pytest.mark.parametrize("name", METHODS)
def test_padding_rows_of_nan_and_zero_rows_change_no_new_row(name, pair):
    plain = new_rows(name, pair, matrices_of(pair))
    padded = new_rows(name, pair, matrices_of(pair, bad=len(pair[0]) + 1))
    for one, other in zip(plain, padded, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", METHODS)
def test_a_source_row_with_nan_is_refused(name, pair):
    token = pair[0].convert_ids_to_tokens(20)
    with pytest.raises(UserError, match=rf"{re.escape(repr(token))} \(id 20\) holds NaN"):
        new_rows(name, pair, matrices_of(pair, bad=20))


# A recipe, a projected recipe, and rows without a recipe.
@pytest.mark.parametrize("name", ["mean", "ofa", "random"])
def test_a_tied_model_stays_tied(pair, model, name):
    grafted = graft(model(), pair[1], fit(name, pair))
    assert grafted.lm_head.weight is grafted.model.embed_tokens.weight
    ids = pair[1]("abc de abde", return_tensors="pt")["input_ids"]
    assert ids.max() >= len(pair[0])
    assert torch.isfinite(grafted(ids).logits).all()


@pytest.mark.parametrize("tied", [True, False])
def test_logits_on_text_without_new_tokens_are_identical(pair, model, tied):
    source = model(tied)
    n = len(pair[0])
    ids = pair[1]("ab b a cab", return_tensors="pt")["input_ids"]
    assert ids.max() < n
    before = source(ids).logits[..., :n]
    after = graft(source, pair[1], fit("mean", pair))(ids).logits[..., :n]
    assert torch.equal(before, after)


@pytest.mark.parametrize("method", ["mean", "random"])
def test_a_stored_initialization_never_spreads_nan(method, pair, tmp_path):
    matrices = matrices_of(pair)
    save_initialization(fit(method, pair), tmp_path, matrices)
    stored = load_initialization(tmp_path)
    used = pair[0].convert_tokens_to_ids("ab")
    matrices["input"][used] = np.nan
    if method == "random":
        assert np.isfinite(stored.apply(matrices["input"])[stored.new_ids]).all()
    else:
        with pytest.raises(UserError, match="would hold NaN"):
            stored.apply(matrices["input"])


def test_sums_too_large_for_the_dtype_are_an_error(pair):
    matrix = np.full((len(pair[0]) + PADDING, 4), 6e4, dtype=np.float16)
    fitted = fit("merge", pair)
    fitted.recipe_ = replace(fitted.recipe_, left=fitted.recipe_.left * 2)
    with pytest.raises(UserError, match="too large for float16"):
        fitted.apply(matrix)


def test_the_model_that_fit_reads_is_checked_for_nan(pair, model):
    source = model()
    with torch.no_grad():
        source.get_input_embeddings().weight[20] = float("inf")
    with pytest.raises(UserError, match=r"\(id 20\) holds NaN or infinity"):
        initializer("distill").fit(
            *pair, corpus=["abc de"], n_source=len(pair[0]) + PADDING, auxiliary={"model": source}
        )


def test_another_tokenizer_is_an_error(pair, model, byte_level):
    other = byte_level([("a", "b"), ("ab", "c")])
    with pytest.raises(UserError, match="target tokenizer that it was fitted with"):
        graft(model(), other, fit("mean", pair))
