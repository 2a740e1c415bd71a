"""Texts as token ids: in batches, whole, and without tokens around them."""

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from lexigraft.source import encoding
from lexigraft.source.encoding import batches, count_tokens, encoded_batches


def test_long_texts_are_in_smaller_batches(monkeypatch):
    monkeypatch.setattr(encoding, "_TEXTS_AT_ONCE", 3)
    monkeypatch.setattr(encoding, "_CHARACTERS_AT_ONCE", 10)
    texts = ["a", "b", "c", "d" * 9, "e", "f" * 20, "g"]
    assert list(batches(texts)) == [texts[:3], texts[3:5], texts[5:6], texts[6:]]
    assert list(batches([])) == []


def test_texts_are_counted_whole_and_without_tokens_around_them():
    backend = Tokenizer(models.WordLevel({"?": 0, "<s>": 1, "mto": 2, "na": 3}, "?"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    backend.enable_truncation(2)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="?", bos_token="<s>")
    texts = ["mto na mto", "", "na na na"]
    assert list(encoded_batches(tokenizer, texts)) == [[[2, 3, 2], [], [3, 3, 3]]]
    assert count_tokens(tokenizer, texts) == {2: 2, 3: 4}
