import pytest

from lexigraft.initialization.decomposition import decompose
from lexigraft.initialization.pairing import pair_vocabularies
from lexigraft.initialization.training_text import (
    find_snippets,
    tokenized_sentences,
    validation_split,
)


@pytest.fixture
def pair(byte_level):
    """New: `ab`, `cde` and `cd`, which is a part of it."""
    return pair_vocabularies(byte_level([]), byte_level([("a", "b"), ("c", "d"), ("cd", "e")]))


@pytest.fixture
def find(pair):
    def found(texts, per_token=9, length=50, context=99, tokens=("ab", "cd", "cde")):
        vocabulary = pair.target_tokenizer.get_vocab()
        ids = [vocabulary[token] for token in tokens]
        pieces = dict(zip(ids, decompose(pair, ids), strict=True))
        return find_snippets(
            tokenized_sentences(pair.target_tokenizer, texts), pair, pieces,
            per_token=per_token, length=length, context=context,
        )  # fmt: skip

    return found


def texts_of(pair, found):
    return [
        "".join(pair.source_tokenizer.convert_ids_to_tokens(snippet.source.tolist()))
        for snippet in found
    ]


def test_a_snippet_has_both_tokenizations(pair, find):
    (snippet,) = find(["xabcdey"])
    letters = pair.source_tokenizer.convert_tokens_to_ids
    assert snippet.source.tolist() == letters([*"xabcdey"])
    new = [pair.target_tokenizer.convert_ids_to_tokens(int(i)) for i in pair.new_ids]
    expected = [letters("x"), -1 - new.index("ab"), -1 - new.index("cde"), letters("y")]
    assert snippet.target.tolist() == expected
    assert snippet.ends.tolist() == [1, 3, 6, 7]


def test_each_token_gets_its_number_of_snippets_and_shares_them(pair, find):
    found = find(["ab1", "ab2", "abcd3", "cd4", "ab5", "cd6"], per_token=2)
    # `ab` has two after the second; the third is taken for `cd`.
    assert texts_of(pair, found) == ["ab1", "ab2", "abcd3", "cd4"]


def test_reading_stops_when_each_token_has_its_snippets(find, monkeypatch):
    # Or it would read a thousand sentences at once.
    monkeypatch.setattr("lexigraft.source.encoding._TEXTS_AT_ONCE", 1)

    def texts():
        yield from ["ab1", "cdecd2"]
        raise AssertionError("read too far")

    assert len(find(texts(), per_token=1)) == 2


def test_the_token_is_in_the_middle_and_snippets_do_not_overlap(pair, find):
    assert texts_of(pair, find(["12345678ab12345678"], length=5)) == ["78ab12"]
    assert texts_of(pair, find(["123ab456ab789"], length=4)) == ["23ab4", "56ab7"]


def test_a_snippet_fits_into_the_context_of_the_model(pair, find):
    assert texts_of(pair, find(["12345678ab12345678"], context=6)) == ["8ab123"]
    assert texts_of(pair, find(["1cde2"], context=3)) == ["cde"]
    assert not find(["1cde2"], context=2)


def test_every_twentieth_item_is_held_out():
    learned, watched = validation_split(list(range(1, 46)))
    assert watched == [20, 40]
    assert sorted(learned + watched) == list(range(1, 46))
    assert validation_split([1, 2, 3]) == ([1, 2, 3], [1, 2, 3])
    assert len(validation_split(list(range(19)))[1]) == 19
