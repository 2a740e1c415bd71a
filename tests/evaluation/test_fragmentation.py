import json
from runpy import run_path

import pytest

from lexigraft.errors import UserError
from lexigraft.evaluation.fragmentation import fragmentation, measure_tokenizer
from tests.conftest import REPOSITORY

NEW = frozenset({258, 259, 260})  # of `target` below


@pytest.fixture(scope="module")
def source(byte_tokenizer):
    return byte_tokenizer(("t", "h"))


@pytest.fixture(scope="module")
def target(byte_tokenizer):
    """The source with two new tokens for Greek letters and one that no text uses."""
    return byte_tokenizer(("t", "h"), ("Î", "±"), ("Î", "²"), ("z", "z"))


def test_rates_by_hand(source, target):
    # "αβ γ" is 7 bytes, 4 characters, 2 words: source 7 tokens; target α, β, space, 2 bytes = 5.
    # "α" is 2 bytes: source 2 tokens, target 1.
    metrics = fragmentation(source, target, new=NEW, heldout=["αβ γ", "α"])
    assert metrics["source_fertility"] == 9 / 3
    assert metrics["fertility"] == 6 / 3
    assert metrics["source_tokens_per_sentence"] == 4.5
    assert metrics["tokens_per_sentence"] == 3
    assert metrics["source_bytes_per_token"] == 1
    assert metrics["bytes_per_token"] == 9 / 6
    assert metrics["source_characters_per_token"] == 5 / 9
    assert metrics["characters_per_token"] == 5 / 6
    assert metrics["new_token_share_input"] == 3 / 6


def test_repeated_words_count_once_in_the_fertility_of_words(source, target):
    # Of α, twice, and βγ: 2 and 4 bytes; the target has α and β as tokens.
    metrics = fragmentation(source, target, new=NEW, heldout=["α α", "βγ"])
    assert metrics["source_word_fertility"] == (2 + 4) / 2
    assert metrics["word_fertility"] == (1 + 3) / 2


def test_new_tokens_that_the_training_text_never_uses_are_counted(source, target):
    metrics = fragmentation(source, target, new=NEW, heldout=["α"], train=["α", "ααβ"])
    assert metrics["new_tokens"] == 3
    assert metrics["unused_new_tokens"] == pytest.approx(1 / 3)
    assert metrics["train_tokens_per_sentence"] == (1 + 3) / 2
    assert metrics["source_train_tokens_per_sentence"] == (2 + 6) / 2


def test_english_growth_and_changed_sentences_by_hand(source, target):
    # "the" is th+e in both; "zz" is two tokens before and one after.
    metrics = fragmentation(
        source, target, new=NEW, heldout=["α"], english=["the", "zz", "the the"]
    )
    assert metrics["english_sentences_changed"] == pytest.approx(1 / 3)
    assert metrics["english_tokens_growth"] == pytest.approx(8 / 9 - 1)


def test_parity_with_english_by_hand(source, target):
    metrics = fragmentation(
        source, target, new=NEW, heldout=["α"], parallel=[("the", "α"), ("a", "αβ")]
    )
    assert metrics["source_english_parity"] == 6 / 3
    assert metrics["english_parity"] == 3 / 3


def test_a_held_out_text_without_words_is_refused(source, target):
    with pytest.raises(UserError, match="no words"):
        fragmentation(source, target, new=NEW, heldout=["  "])


def test_the_space_before_the_first_word_does_not_count_as_a_change(
    mistral_tokenizer, byte_tokenizer
):
    # Mistral's "▁a", "▁b" and these bytes: the same words, with and without a leading space.
    target = byte_tokenizer(("Ġ", "b"))
    metrics = fragmentation(
        mistral_tokenizer, target, new=frozenset(), heldout=["a"], english=["a b", "a cat"]
    )
    assert metrics["english_sentences_changed"] == 1 / 2


@pytest.fixture(scope="module")
def tokenizer(byte_tokenizer):
    """Bytes, and tokens for "th", for α, and one for "zz" whose parts come together before."""
    return byte_tokenizer(("t", "h"), ("Î", "±"), ("a", "b"), ("b", "c"), ("a", "bc"))


def test_rates_by_hand_of_one_tokenizer(tokenizer):
    # "αβ γ": α, two bytes, a space, two bytes = 6 tokens, 7 bytes, 4 characters, 2 words; "α": 1.
    metrics, tokens = measure_tokenizer(tokenizer, texts=["αβ γ", "α"])
    assert tokens == [6, 1]
    assert metrics["tokens_per_sentence"] == 3.5
    assert metrics["fertility"] == pytest.approx(7 / 3)
    assert metrics["bytes_per_token"] == 9 / 7
    assert metrics["characters_per_token"] == 5 / 7
    assert metrics["unknown_tokens"] == 0
    assert {"english_parity", "unused_tokens"}.isdisjoint(metrics)


def test_unused_and_unreachable_tokens_by_hand(tokenizer):
    # 256 bytes and five tokens that are not special; 13 bytes are never in UTF-8, and "abc" is
    # always "ab", "c". The training text uses α, "th", and the bytes of β, e.
    metrics = measure_tokenizer(tokenizer, texts=["α"], train=["α the", "β"]).metrics
    assert metrics["size"] == 262
    assert metrics["unreachable_tokens"] == pytest.approx(14 / 261)
    # α, the space, th, e, and two bytes of β
    assert metrics["unused_tokens"] == pytest.approx(1 - 6 / 261)


def test_fragmentation_of_an_unchanged_vocabulary_is_measured_without_a_model(
    cell, make_job, tmp_path
):
    file = tmp_path / "evaluation" / "fragmentation" / "record.json"
    job = {
        "rule": "measure_fragmentation",
        "settings": {},
        "inputs": {
            "source": str(tmp_path / "source"),
            "tokenizer": str(tmp_path / "source"),
            "corpus": make_job("perplexity")["inputs"]["corpus"],
        },
        "outputs": {"folder": str(file.parent)},
        "cell": {"source": "tiny", "language": "el-kolibri", "vocabulary": "source"},
    }
    (tmp_path / "corpus" / "train.txt").write_text("ένα\n", "utf-8")
    run_path(str(REPOSITORY / "scripts" / "measure_fragmentation.py"))["stage"](job)
    record = json.loads(file.read_text("utf-8"))
    assert (record["source"], record["language"]) == ("tiny", "el-kolibri")
    assert record["metrics"]["english_sentences_changed"] == 0
    assert record["metrics"]["fertility"] == record["metrics"]["source_fertility"] > 1


def test_new_tokens_of_a_replaced_vocabulary_are_given_by_their_ids(source, byte_tokenizer):
    # The same tokens in another order, and one more: "αβ" is new, "th" is not.
    target = byte_tokenizer(("Î", "±"), ("t", "h"))
    new = {target.convert_tokens_to_ids("Î±")}
    metrics = fragmentation(
        source, target, new=new, heldout=["α th"], english=["the", "th e"], train=["the"]
    )
    assert metrics["new_tokens"] == 1
    assert metrics["new_token_share_input"] == 1 / 3
    assert metrics["unused_new_tokens"] == 1
    # The ids differ, the cuts do not.
    assert metrics["english_sentences_changed"] == metrics["english_tokens_growth"] == 0


def test_parity_with_english_by_hand_of_one_tokenizer(tokenizer):
    # "the": th, e; "a": a. Their translations take one token and three.
    metrics = measure_tokenizer(tokenizer, texts=["α", "αβ"], english=["the", "a"]).metrics
    assert metrics["english_tokens_per_sentence"] == 1.5
    assert metrics["english_parity"] == 4 / 3
