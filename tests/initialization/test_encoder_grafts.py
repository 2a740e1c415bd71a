"""Encoders with other vocabularies: rows, bias, and the positions of every text."""

import pytest
import torch

from lexigraft.initialization.graft import graft
from lexigraft.initialization.registry import initializer
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.train import train_tokenizer

PADDING_ROWS = 3
METHODS = ["align", "mean", "mean-of-all", "merge", "random", "multivariate", "permutation"]


@pytest.fixture(scope="module")
def expanded(roberta_tokenizer, telugu):
    return expand_tokenizer(roberta_tokenizer, telugu, new_tokens=30)


@pytest.fixture(scope="module")
def replaced(roberta_tokenizer, english, telugu):
    return train_tokenizer([*english, *telugu], "sentencepiece-bpe", 600, roberta_tokenizer)


def fit(name, source, target, telugu):
    rows = len(source) + PADDING_ROWS
    return initializer(name).fit(source, target, corpus=telugu[:50], n_source=rows, seed=1)


@pytest.fixture
def model(tiny_roberta, roberta_tokenizer):
    return tiny_roberta(len(roberta_tokenizer) + PADDING_ROWS)


def bias_of(grafted):
    return grafted.get_output_embeddings().bias


@pytest.mark.parametrize("name", METHODS)
def test_a_tied_encoder_stays_tied_and_its_bias_grows(
    model, roberta_tokenizer, expanded, telugu, name
):
    fitted = fit(name, roberta_tokenizer, expanded, telugu)
    rows, bias = model.get_input_embeddings().weight.clone(), bias_of(model).clone()
    grafted = graft(model, expanded, fitted)
    embeddings, head = grafted.get_input_embeddings(), grafted.get_output_embeddings()
    assert head.weight is embeddings.weight and head.bias is grafted.lm_head.bias
    assert embeddings.weight.shape[0] == len(bias_of(grafted)) == fitted.n_target
    assert torch.equal(embeddings.weight, fitted.apply(rows, "input"))
    kept = len(roberta_tokenizer)
    assert torch.equal(bias_of(grafted)[:kept], bias[:kept])
    tokens = expanded(telugu[0], return_tensors="pt")
    assert tokens["input_ids"].max() >= kept
    assert torch.isfinite(grafted(**tokens).logits).all()


def test_a_replaced_encoder_reads_shared_tokens_as_before(
    model, roberta_tokenizer, replaced, telugu
):
    """Under other ids, with another padding token, shared tokens have the logits that they had."""
    fitted = fit("mean", roberta_tokenizer, replaced, telugu)
    assert replaced.pad_token_id != roberta_tokenizer.pad_token_id
    shared = fitted.pair_.shared_ids[10:20].tolist()
    there = torch.tensor([[replaced.cls_token_id, *shared, replaced.sep_token_id]])
    here = torch.from_numpy(fitted.pair_.source_of)[there]
    with torch.no_grad():
        before = model(here).logits
        grafted = graft(model, replaced, fitted)
        after = grafted(there).logits
    assert grafted.config.pad_token_id == replaced.pad_token_id
    of_shared = torch.tensor(fitted.pair_.shared_ids)
    sources = torch.from_numpy(fitted.pair_.source_of)[of_shared]
    torch.testing.assert_close(after[..., of_shared], before[..., sources])


def test_the_bias_of_a_new_token_is_the_recipe_of_its_pieces(
    model, roberta_tokenizer, expanded, telugu
):
    bias = bias_of(model).clone()
    fitted = fit("mean", roberta_tokenizer, expanded, telugu)
    grafted = graft(model, expanded, fitted)
    for new in fitted.new_ids[:5]:
        weights = fitted.weights_[[new]].toarray()[0]
        expected = (torch.from_numpy(weights).float() * bias).sum()
        assert bias_of(grafted)[new].item() == pytest.approx(expected.item(), abs=1e-5)
