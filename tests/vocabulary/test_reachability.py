"""Unreachable tokens, compared with all texts of a small alphabet and with real text."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers

from lexigraft.vocabulary.token_bytes import unreachable


def names(tokenizer):
    return {tokenizer.convert_ids_to_tokens(number) for number in unreachable(tokenizer)}


def own_names(tokenizer):
    """Of several letters: the bytes that no text holds are left out."""
    return {name for name in names(tokenizer) if len(name) > 1}


@st.composite
def merges(draw):
    """Up to five merges of a, b, c and what was made of them before, in any order of birth."""
    made, found = ["a", "b", "c"], []
    for _ in range(draw(st.integers(1, 5))):
        pair = (draw(st.sampled_from(made)), draw(st.sampled_from(made)))
        if "".join(pair) not in made and len("".join(pair)) <= 4:
            found.append(pair)
            made.append("".join(pair))
    return found


@given(merges())
@settings(max_examples=25)
def test_unreachable_tokens_are_those_that_no_short_text_contains(byte_tokenizer, pairs):
    tokenizer = byte_tokenizer(*pairs)
    texts = ["".join(letters) for size in range(1, 7) for letters in product("abc", repeat=size)]
    used = {token for ids in tokenizer(texts)["input_ids"] for token in ids}
    made = {left + right for left, right in pairs}
    assert own_names(tokenizer) == made - set(tokenizer.convert_ids_to_tokens(sorted(used)))


def test_a_token_that_the_pre_tokenizer_splits_is_unreachable(byte_tokenizer):
    tokenizer = byte_tokenizer(("1", "2"), ("a", "b"))
    assert own_names(tokenizer) == set()
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), tokenizer.backend_tokenizer.pre_tokenizer]
    )
    assert own_names(tokenizer) == {"12"}


def test_a_token_that_the_normalizer_changes_is_unreachable(byte_tokenizer):
    tokenizer = byte_tokenizer(("A", "B"), ("a", "b"))
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    assert "AB" in names(tokenizer)
    assert "ab" not in names(tokenizer)


@pytest.mark.parametrize("name", ["smollm2_cut", "mistral_tokenizer", "bert_tokenizer"])
def test_no_token_of_real_text_is_unreachable(name, lines, request):
    tokenizer = request.getfixturevalue(name)
    encoded = tokenizer(lines, add_special_tokens=False)["input_ids"]
    assert not {token for ids in encoded for token in ids} & unreachable(tokenizer)


def test_the_byte_of_a_character_that_is_a_token_is_unreachable(mistral_tokenizer):
    found = names(mistral_tokenizer)
    assert {"<0x41>", "<0xC0>", "<0xFF>"} <= found  # "A" is a token; the others are no UTF-8
    assert not {"<0xE0>", "<0x80>", "<0x0A>"} & found  # a line feed is none
    assert not {"<s>", "</s>", "<unk>"} & found
