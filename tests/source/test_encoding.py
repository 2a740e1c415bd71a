"""Texts as token ids: in batches, whole, and without tokens around them."""

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.source.encoding import count_tokens, encoded_batches
from lexigraft.vocabulary.token_bytes import byte_alphabet


def test_texts_are_counted_whole_and_without_tokens_around_them():
    backend = Tokenizer(models.WordLevel({"?": 0, "<s>": 1, "mto": 2, "na": 3}, "?"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    backend.enable_truncation(2)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="?", bos_token="<s>")
    texts = ["mto na mto", "", "na na na"]
    assert list(encoded_batches(tokenizer, texts)) == [[[2, 3, 2], [], [3, 3, 3]]]
    assert count_tokens(tokenizer, texts) == {2: 2, 3: 4}


def with_pattern(pattern):
    """Byte-level BPE that splits words with a pattern, of which the engine may give up a match."""
    alphabet = {letter: i for i, letter in enumerate(sorted(byte_alphabet()))}
    backend = Tokenizer(models.BPE(alphabet, []))
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_])
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def of(model):
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(model))


@pytest.mark.bad_input(
    "model",
    "a tokenizer that fails on a text, because of its pattern or without an unknown token",
    "a one-line error message says what its library says",
)
@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (with_pattern("(a+)+$"), "Regex search error: retry-limit-in-match over"),
        (of(models.Unigram([("a", -1.0)])), "`unk_id` is missing"),
        (of(models.WordPiece({"a": 0}, unk_token="[UNK]")), r"Missing \[UNK\] token"),
        (of(models.WordLevel({"a": 0}, unk_token="[UNK]")), r"Missing \[UNK\] token"),
    ],
    ids=["pattern", "unigram", "wordpiece", "words"],
)
def test_a_tokenizer_that_fails_on_a_text_is_one_line(tokenizer, message):
    with pytest.raises(UserError, match=f"the tokenizer fails on a text .*{message}"):
        list(encoded_batches(tokenizer, ["a" * 40 + "b", "a"]))
