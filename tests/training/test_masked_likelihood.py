"""The held-out curve of encoders: the same masks each time, whatever the batches."""

import math

import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.training.masked_likelihood import score_masked


@pytest.fixture
def model(tiny_roberta, roberta_tokenizer):
    return tiny_roberta(len(roberta_tokenizer) + 5)


def test_a_uniform_model_needs_the_log_of_its_rows_for_each_masked_token(
    model, roberta_tokenizer, english
):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    found = score_masked(model, roberta_tokenizer, english)
    tokens = sum(len(ids) - 2 for ids in roberta_tokenizer(english)["input_ids"])
    assert found.tokens == pytest.approx(0.15 * tokens, rel=0.1)
    assert found.nats == pytest.approx(found.tokens * math.log(len(roberta_tokenizer) + 5))
    assert found.perplexity == pytest.approx(len(roberta_tokenizer) + 5, rel=1e-4)
    assert found.bits_per_byte is None


def test_the_score_depends_on_neither_batches_nor_chance(model, roberta_tokenizer, english):
    scores = [
        score_masked(model, roberta_tokenizer, english[:20], batch_tokens=size)
        for size in (1, 100, 100, 5_000)
    ]
    torch.manual_seed(5)
    assert {score.tokens for score in scores} == {scores[0].tokens}
    for score in scores[1:]:
        assert score.nats == pytest.approx(scores[0].nats, rel=1e-5)


def test_a_text_that_the_model_cannot_hold_is_read_in_parts(model, roberta_tokenizer, english):
    long = " ".join(english[:60])
    assert len(roberta_tokenizer(long)["input_ids"]) > 3 * 128
    found = score_masked(model, roberta_tokenizer, [long])
    assert found.tokens > 40 and math.isfinite(found.nats)


def test_training_mode_is_left_as_it_was(model, roberta_tokenizer, english):
    model.train()
    one, two = (score_masked(model, roberta_tokenizer, english[:5]) for _ in range(2))
    assert model.training and one.nats == two.nats  # no dropout in between


def test_texts_of_which_no_token_is_masked_are_refused(model, roberta_tokenizer):
    with pytest.raises(UserError, match="no token of 1 sentences was masked"):
        score_masked(model, roberta_tokenizer, ["a"])
