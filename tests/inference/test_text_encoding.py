"""Every text begins with one special token, or with none if the tokenizer has none."""

from copy import deepcopy

import pytest

from lexigraft.inference.text_encoding import encode, scored_parts, tokenize


def test_texts_keep_their_order_over_batches(without_bos, monkeypatch):
    monkeypatch.setattr("lexigraft.inference.text_encoding.BATCH", 2)
    texts = [f"text {number}" for number in range(5)]
    assert [without_bos.decode(ids[1:]) for ids in encode(without_bos, texts)] == texts


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(
    "name", ["with_bos", "mistral_tokenizer", "roberta_tokenizer", "smollm2_tokenizer"]
)
def test_texts_are_tokenized_as_transformers_does(request, telugu, name, special):
    tokenizer = request.getfixturevalue(name)
    texts = [
        *telugu[:9],
        "",
        "  two  spaces\n",
        f"a {tokenizer.all_special_tokens[0]} b",
        "e\u0301 🙂",
    ]
    found = list(tokenize(tokenizer, texts, special=special))
    assert found == tokenizer(texts, add_special_tokens=special)["input_ids"]


def test_truncation_and_padding_settings_of_a_tokenizer_are_ignored(with_bos):
    tokenizer = deepcopy(with_bos)
    tokenizer.backend_tokenizer.enable_truncation(3)
    tokenizer.backend_tokenizer.enable_padding(length=99)
    texts = ["one two three four", "five"]
    assert list(tokenize(tokenizer, texts)) == list(tokenize(with_bos, texts))


def test_the_scored_part_of_a_text_without_a_boundary_begins_at_its_second_token(bare):
    for text in ("the river", "é", "x", ""):
        (ids,) = encode(bare, [text])
        (part,) = scored_parts(bare, [text])
        # The bytes of é are two tokens, and none of them has a character of its own.
        assert part == ("é" if text == "é" else bare.decode(ids[1:]))


def test_without_bos_a_text_begins_with_eos(without_bos):
    (ids,) = encode(without_bos, ["one two"])
    assert ids == [without_bos.eos_token_id, *without_bos("one two")["input_ids"]]


def test_a_tokenizer_that_adds_bos_is_used_unchanged(with_bos):
    (ids,) = encode(with_bos, ["one two"])
    assert ids == with_bos("one two")["input_ids"]
    assert ids.count(with_bos.bos_token_id) == 1 and ids[0] == with_bos.bos_token_id
