"""The likelihood is that of one token after the other, or of masked ones, however batched."""

import math

import numpy as np
import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.inference.chunked_logits import IGNORED
from lexigraft.inference.likelihood import Masker, score_masked, score_texts

TEXTS = ["one two three", "a", "the quick brown fox jumps over the lazy dog", "ένα δύο", "b" * 50]


def by_hand(model, tokenizer, texts, start):
    """Nats, one token and one forward pass at a time."""
    nats, tokens = 0.0, 0
    for text in texts:
        ids = start + tokenizer(text)["input_ids"]
        for at in range(1, len(ids)):
            logits = model(torch.tensor([ids[:at]])).logits[0, -1]
            nats -= logits.double().log_softmax(-1)[ids[at]].item()
            tokens += 1
    return nats, tokens


@pytest.fixture
def model(tiny_llama):
    return tiny_llama(320)


def test_the_likelihood_is_the_sum_over_single_tokens(model, without_bos, with_bos):
    """The start token is context and not scored, whether the tokenizer adds it or not."""
    for tokenizer, start in ((without_bos, [without_bos.eos_token_id]), (with_bos, [])):
        score = score_texts(model, tokenizer, TEXTS)
        nats, tokens = by_hand(model, tokenizer, TEXTS, start)
        assert score.nats == pytest.approx(nats, rel=1e-6)
        assert score.tokens == tokens == sum(len(ids) for ids in without_bos(TEXTS)["input_ids"])


def test_a_chat_model_s_texts_are_scored_after_the_separator_of_pretraining(
    model, special_tokenizer
):
    """Equal to plain transformers with `<|endoftext|>` before each text."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = special_tokenizer(*special, bos_token=special[1], eos_token=special[2])
    nats = 0.0
    for text in TEXTS:
        ids = tokenizer(f"<|endoftext|>{text}", return_tensors="pt")["input_ids"]
        nats += model(ids, labels=ids).loss.item() * (ids.shape[1] - 1)
    assert score_texts(model, tokenizer, TEXTS).nats == pytest.approx(nats, rel=1e-5)


def test_without_a_start_token_the_first_token_of_a_text_is_not_scored(model, bare):
    score = score_texts(model, bare, TEXTS)
    nats, tokens = by_hand(model, bare, TEXTS, [])
    assert score.nats == pytest.approx(nats, rel=1e-6)
    first = [bare.decode(bare(text)["input_ids"][:1]) for text in TEXTS[:3]]
    assert [own.bytes for own in score.texts[:3]] == [
        len(text) - len(token) for text, token in zip(TEXTS, first, strict=False)
    ]
    assert score.tokens == tokens and score.texts[1].tokens == score.texts[1].bytes == 0


def test_the_batch_size_does_not_matter(model, without_bos):
    alone = score_texts(model, without_bos, TEXTS)
    score = score_texts(model, without_bos, TEXTS[::-1], batch_tokens=20)
    assert score.nats == pytest.approx(alone.nats, rel=1e-6)
    assert score.tokens == alone.tokens


def without_memory_for(model, tokens, monkeypatch):
    """Let forward passes of more tokens fail; returns the list of all passes' tokens."""
    inner, sizes = model.forward, []

    def forward(input_ids, **given):
        sizes.append(input_ids.numel())
        if input_ids.numel() > tokens:
            raise torch.OutOfMemoryError
        return inner(input_ids=input_ids, **given)

    monkeypatch.setattr(model, "forward", forward)
    return sizes


@pytest.mark.fault(
    "machine",
    "GPU memory runs out while texts are generated or scored",
    "batches are halved; texts and scores are the same",
)
def test_batches_that_do_not_fit_into_memory_are_halved_and_scored_the_same(
    model, without_bos, monkeypatch, caplog
):
    alone = score_texts(model, without_bos, TEXTS)
    sizes = without_memory_for(model, 90, monkeypatch)
    score = score_texts(model, without_bos, TEXTS)
    assert [one.nats for one in score.texts] == pytest.approx(
        [one.nats for one in alone.texts], rel=1e-6
    )
    assert sizes[0] > 90 and len(sizes) == 2 + len(caplog.records) + 1
    with pytest.raises(torch.OutOfMemoryError):
        score_texts(model, without_bos, ["ab" * 100])


def test_a_long_text_is_scored_in_windows_that_overlap_by_half(model, without_bos):
    model.config.max_position_embeddings = 8
    ids = [without_bos.eos_token_id, *without_bos("b" * 21)["input_ids"]]
    nats = 0.0
    for at in range(1, len(ids)):
        # Windows of 8: the first starts at 0, each further one 4 tokens before its first target.
        begin = 0 if at < 8 else 4 * ((at - 8) // 4) + 4
        logits = model(torch.tensor([ids[begin:at]])).logits[0, -1]
        nats -= logits.double().log_softmax(-1)[ids[at]].item()
    score = score_texts(model, without_bos, ["b" * 21])
    assert score.tokens == len(ids) - 1
    assert score.nats == pytest.approx(nats, rel=1e-6)


def test_bits_per_byte_and_perplexity_follow_from_the_totals(model, without_bos):
    score = score_texts(model, without_bos, ["ένα", "ab"])
    assert (score.bytes, score.characters) == (8, 5)
    assert score.bits_per_byte == pytest.approx(score.nats / math.log(2) / 8)
    assert score.perplexity == pytest.approx(math.exp(score.nats / score.tokens))


def test_a_model_in_training_mode_is_scored_without_dropout_and_stays_in_training_mode(
    model, without_bos
):
    model.model.layers[0].self_attn.attention_dropout = 0.5
    expected = score_texts(model, without_bos, TEXTS).nats
    model.train()
    assert score_texts(model, without_bos, TEXTS).nats == expected
    assert model.training


@pytest.fixture
def encoder(tiny_roberta, roberta_tokenizer):
    return tiny_roberta(len(roberta_tokenizer) + 5)


def test_a_uniform_model_needs_the_log_of_its_rows_for_each_masked_token(
    encoder, roberta_tokenizer, english
):
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
    found = score_masked(encoder, roberta_tokenizer, english)
    tokens = sum(len(ids) - 2 for ids in roberta_tokenizer(english)["input_ids"])
    assert found.tokens == pytest.approx(0.15 * tokens, rel=0.1)
    assert found.nats == pytest.approx(found.tokens * math.log(len(roberta_tokenizer) + 5))
    assert found.perplexity == pytest.approx(len(roberta_tokenizer) + 5, rel=1e-4)
    assert found.bits_per_byte is None


def test_the_score_depends_on_neither_batches_nor_chance(encoder, roberta_tokenizer, english):
    scores = [
        score_masked(encoder, roberta_tokenizer, english[:20], batch_tokens=size)
        for size in (1, 100, 100, 5_000)
    ]
    torch.manual_seed(5)
    assert {score.tokens for score in scores} == {scores[0].tokens}
    for score in scores[1:]:
        assert score.nats == pytest.approx(scores[0].nats, rel=1e-5)


def test_texts_without_a_masked_token_are_refused(encoder, roberta_tokenizer):
    with pytest.raises(UserError, match="no token of 1 sentences was masked"):
        score_masked(encoder, roberta_tokenizer, ["a"])


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


@pytest.mark.parametrize("batch_tokens", [1, 10_000])
def test_each_text_has_its_own_likelihood(model, without_bos, batch_tokens):
    model.config.max_position_embeddings = 8  # so that the longest is read in several windows
    score = score_texts(model, without_bos, TEXTS, batch_tokens=batch_tokens)
    for text, own in zip(TEXTS, score.texts, strict=True):
        (alone,) = score_texts(model, without_bos, [text]).texts
        assert own.nats == pytest.approx(alone.nats, rel=1e-5)
        assert (own.tokens, own.bytes, own.characters) == (
            len(without_bos(text)["input_ids"]), len(text.encode()), len(text)
        )  # fmt: skip
    assert score.nats == pytest.approx(sum(own.nats for own in score.texts))


def test_the_bos_token_is_context_and_not_scored(model, with_bos):
    score = score_texts(model, with_bos, TEXTS)
    nats, tokens = by_hand(model, with_bos, TEXTS, [])
    assert score.nats == pytest.approx(nats, rel=1e-6)
    assert score.tokens == tokens == sum(len(with_bos(text)["input_ids"]) - 1 for text in TEXTS)


def test_uniform_logits_cost_the_logarithm_of_the_vocabulary(model, without_bos):
    torch.nn.init.zeros_(model.get_output_embeddings().weight)
    score = score_texts(model, without_bos, TEXTS)
    assert score.nats / score.tokens == pytest.approx(math.log(320), rel=1e-6)
