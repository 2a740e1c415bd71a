"""Tokens as bytes, in all four families."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from lexigraft.vocabulary.token_bytes import special_ids, token_bytes


def joined(tokenizer, texts):
    data = token_bytes(tokenizer)
    ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return [b"".join(data[i] for i in text_ids) for text_ids in ids]


def test_byte_level_tokens_join_to_the_text(smollm2_tokenizer, telugu, english):
    texts = [*telugu, *english, "naïve 😀\ttab"]
    assert joined(smollm2_tokenizer, texts) == [text.encode() for text in texts]


def test_sentencepiece_tokens_join_to_the_text_after_its_added_space(mistral_tokenizer, burmese):
    texts = [*burmese, "two  spaces 😀"]
    assert joined(mistral_tokenizer, texts) == [b" " + text.encode() for text in texts]


def test_unigram_and_wordpiece_spellings_are_undone():
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁ab", -1.0), ("c", -2.0)], unk_id=0))
    unigram.decoder = decoders.Metaspace()
    assert token_bytes(PreTrainedTokenizerFast(tokenizer_object=unigram))[1:] == [b" ab", b"c"]
    wordpiece = Tokenizer(models.WordPiece({"[UNK]": 0, "un": 1, "##do": 2}, unk_token="[UNK]"))
    wordpiece.pre_tokenizer = pre_tokenizers.Whitespace()
    assert token_bytes(PreTrainedTokenizerFast(tokenizer_object=wordpiece))[1:] == [b" un", b"do"]


def test_punctuation_in_wordpiece_has_no_leading_space(bert_tokenizer):
    data, ids = token_bytes(bert_tokenizer), bert_tokenizer.get_vocab()
    expected = {
        "the": b" the", "##ing": b"ing", ".": b".", "(": b"(", "中": "中".encode(), "2": b" 2",
        "[CLS]": b"[CLS]",
    }  # fmt: skip
    assert {token: data[ids[token]] for token in expected} == expected


def test_special_tokens_have_a_role_or_are_marked_as_special(smollm2_tokenizer):
    special = special_ids(smollm2_tokenizer)
    assert {0, 1, 2} <= special and 16 in special
    assert smollm2_tokenizer.convert_tokens_to_ids("Ġthe") not in special
