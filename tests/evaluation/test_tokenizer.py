"""One tokenizer on one language's text, worked out by hand."""

import pytest

from lexigraft.errors import UserError
from lexigraft.evaluation.fragmentation import measure_tokenizer


@pytest.fixture(scope="module")
def tokenizer(byte_tokenizer):
    """Bytes, and tokens for "th", for α, and one for "zz" whose parts come together before."""
    return byte_tokenizer(("t", "h"), ("Î", "±"), ("a", "b"), ("b", "c"), ("a", "bc"))


def test_rates_by_hand(tokenizer):
    # "αβ γ": α, two bytes, a space, two bytes = 6 tokens, 7 bytes, 4 characters, 2 words; "α": 1.
    metrics, tokens = measure_tokenizer(tokenizer, texts=["αβ γ", "α"])
    assert tokens == [6, 1]
    assert metrics["tokens_per_sentence"] == 3.5
    assert metrics["fertility"] == pytest.approx(7 / 3)
    assert metrics["bytes_per_token"] == 9 / 7
    assert metrics["characters_per_token"] == 5 / 7
    assert metrics["unknown_tokens"] == 0
    assert {"english_parity", "unused_tokens"}.isdisjoint(metrics)


def test_parity_with_english_by_hand(tokenizer):
    # "the": th, e; "a": a. Their translations take one token and three.
    metrics = measure_tokenizer(tokenizer, texts=["α", "αβ"], english=["the", "a"]).metrics
    assert metrics["english_tokens_per_sentence"] == 1.5
    assert metrics["english_parity"] == 4 / 3


def test_tokens_of_no_use_by_hand(tokenizer):
    # 256 bytes and five tokens that are not special; 13 bytes are never in UTF-8, and "abc" is
    # always "ab", "c". The training text uses α, "th", and the bytes of β, e.
    metrics = measure_tokenizer(tokenizer, texts=["α"], train=["α the", "β"]).metrics
    assert metrics["size"] == 262
    assert metrics["unreachable_tokens"] == pytest.approx(14 / 261)
    # α, the space, th, e, and two bytes of β
    assert metrics["unused_tokens"] == pytest.approx(1 - 6 / 261)


def test_what_a_tokenizer_cannot_write_is_counted(bert_tokenizer):
    # BERT's English WordPiece has no Telugu: each such word is one unknown token.
    metrics = measure_tokenizer(bert_tokenizer, texts=["the తెలుగు భాష"]).metrics
    assert metrics["unknown_tokens"] == pytest.approx(2 / 3)


def test_special_tokens_do_not_count(bert_tokenizer):
    assert measure_tokenizer(bert_tokenizer, texts=["the"]).metrics["tokens_per_sentence"] == 1


def test_a_text_without_words_is_refused(tokenizer):
    with pytest.raises(UserError, match="no words"):
        measure_tokenizer(tokenizer, texts=["  "])


def test_smollm2_spends_a_token_a_byte_on_telugu(smollm2_cut, parallel_telugu):
    english, telugu = zip(*parallel_telugu, strict=True)
    metrics = measure_tokenizer(smollm2_cut, texts=telugu, english=english).metrics
    assert metrics["bytes_per_token"] < 1.5
    assert metrics["english_parity"] > 4
