"""The held-out curve of encoders: the same masks each time, whatever the batches."""

import math

import numpy as np
import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.inference.chunked_logits import IGNORED
from lexigraft.inference.likelihood import Masker, score_masked


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


def test_a_text_longer_than_the_context_is_scored_in_windows(model, roberta_tokenizer, english):
    long = " ".join(english[:60])
    assert len(roberta_tokenizer(long)["input_ids"]) > 3 * 128
    found = score_masked(model, roberta_tokenizer, [long])
    assert found.tokens > 40 and math.isfinite(found.nats)


def test_texts_without_a_masked_token_are_refused(model, roberta_tokenizer):
    with pytest.raises(UserError, match="no token of 1 sentences was masked"):
        score_masked(model, roberta_tokenizer, ["a"])


@pytest.fixture
def masker(roberta_tokenizer):
    return Masker(roberta_tokenizer)


def ordinary(tokenizer, count):
    """Random tokens that are not special."""
    special = set(tokenizer.all_special_ids)
    ids = [number for number in range(len(tokenizer)) if number not in special]
    return np.random.default_rng(0).choice(ids, count)


def test_of_the_drawn_tokens_80_percent_are_masked_10_random_and_10_unchanged(
    masker, roberta_tokenizer
):
    tokens = ordinary(roberta_tokenizer, 40_000)
    read, labels = masker(tokens, 1)
    drawn = labels != IGNORED
    assert (labels[drawn] == tokens[drawn]).all() and (read[~drawn] == tokens[~drawn]).all()
    assert drawn.mean() == pytest.approx(0.15, abs=0.01)
    assert (read[drawn] == roberta_tokenizer.mask_token_id).mean() == pytest.approx(0.8, abs=0.02)
    assert (read[drawn] == tokens[drawn]).mean() == pytest.approx(0.1, abs=0.015)


def test_the_share_of_masked_tokens_is_that_of_the_phase(roberta_tokenizer):
    tokens = ordinary(roberta_tokenizer, 20_000)
    _, labels = Masker(roberta_tokenizer, 0.4)(tokens, 1)
    assert (labels != IGNORED).mean() == pytest.approx(0.4, abs=0.02)


def test_special_and_uncounted_tokens_are_never_drawn(masker, roberta_tokenizer):
    tokens = np.tile([0, 40, 2, 50, 1], 2_000)
    targets = tokens != 50
    read, labels = masker(tokens, 3, targets)
    assert (labels[tokens == 40] != IGNORED).any()
    assert (labels[tokens != 40] == IGNORED).all()
    assert (read[tokens != 40] == tokens[tokens != 40]).all()


def test_a_tokenizer_without_a_mask_token_is_refused(without_bos):
    with pytest.raises(UserError, match="mlm needs a tokenizer with a mask token"):
        Masker(without_bos)
