"""Vocabularies for encoders: masking, padding and pairs of texts as in the source."""

import pytest
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.tokenizer_settings import take_tokenizer
from lexigraft.vocabulary.train import FAMILIES, train_tokenizer

ROLES = ("bos", "eos", "cls", "sep", "pad", "mask")


def pair_of(tokenizer):
    """The special tokens of a pair of texts, by role, and a dot for each text."""
    encoding = tokenizer("a", "a").encodings[0]
    names = {tokenizer.cls_token: "cls", tokenizer.sep_token: "sep"}
    shown = []
    for token, text in zip(encoding.tokens, encoding.sequence_ids, strict=True):
        one = names[token] if text is None else "."
        if one != "." or shown[-1:] != ["."]:
            shown.append(one)
    return shown


def test_the_tokenizer_of_a_causal_model_gets_the_tokens_of_an_encoder(
    roberta_tokenizer, mistral_cut
):
    taken = take_tokenizer(mistral_cut, roberta_tokenizer)
    assert (taken.cls_token, taken.sep_token) == ("<s>", "</s>")
    size = len(mistral_cut)
    assert {taken.pad_token_id, taken.mask_token_id} == {size, size + 1}
    assert pair_of(taken) == pair_of(roberta_tokenizer)
    plain = mistral_cut("one two", add_special_tokens=False)["input_ids"]
    assert taken("one two")["input_ids"] == [taken.cls_token_id, *plain, taken.sep_token_id]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_trained_tokenizer_has_the_roles_and_pairs_of_the_source(
    family, roberta_tokenizer, english
):
    trained = train_tokenizer(english, family, 400, roberta_tokenizer)
    for role in ROLES:
        assert getattr(trained, f"{role}_token") == getattr(roberta_tokenizer, f"{role}_token")
        assert getattr(trained, f"{role}_token_id") is not None
    assert pair_of(trained) == pair_of(roberta_tokenizer)


def test_an_expansion_keeps_roles_and_pairs(roberta_tokenizer, telugu):
    expanded = expand_tokenizer(roberta_tokenizer, telugu, new_tokens=20)
    for role in ROLES:
        name = f"{role}_token_id"
        assert getattr(expanded, name) == getattr(roberta_tokenizer, name)
    assert pair_of(expanded) == pair_of(roberta_tokenizer)


def test_the_second_text_of_a_pair_has_the_type_that_it_has_in_the_source(bert_cut, mistral_cut):
    backend = type(bert_cut.backend_tokenizer).from_str(bert_cut.backend_tokenizer.to_str())
    backend.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 101), ("[SEP]", 102)],
    )  # fmt: skip
    source = PreTrainedTokenizerFast(
        tokenizer_object=backend, cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]",
        mask_token="[MASK]", unk_token="[UNK]",
    )  # fmt: skip
    taken = take_tokenizer(mistral_cut, source)
    types = taken("a", "a").encodings[0].type_ids
    assert pair_of(taken) == ["cls", ".", "sep", ".", "sep"]
    assert types == sorted(types) and types.count(1) == 2  # the text and what ends it
