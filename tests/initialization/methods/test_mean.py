import pytest
from tokenizers import normalizers
from tokenizers.pre_tokenizers import ByteLevel

from lexigraft.initialization.decomposition import decompose
from lexigraft.initialization.pairing import pair_vocabularies
from lexigraft.initialization.registry import initializer


def test_a_piece_that_occurs_twice_counts_twice(byte_level, row):
    source = byte_level([])
    target = byte_level([("a", "n"), ("b", "an"), ("ban", "an")])
    fitted = initializer("mean").fit(source, target)
    assert row(fitted, "banan") == pytest.approx({"a": 0.4, "b": 0.2, "n": 0.4})


def test_a_byte_split_token_over_three_bytes_is_their_mean(byte_level, spelled, row):
    first, second, third = spelled("త")
    source = byte_level([])
    target = byte_level([(first, second), (first + second, third)])
    fitted = initializer("mean").fit(source, target)
    assert row(fitted, spelled("త")) == pytest.approx(dict.fromkeys((first, second, third), 1 / 3))


def test_a_new_character_is_the_mean_of_its_fallback_bytes(byte_fallback, row):
    source, target = byte_fallback([]), byte_fallback([], new_characters="త")
    fitted = initializer("mean").fit(source, target)
    expected = {"<0xE0>": 1 / 3, "<0xB0>": 1 / 3, "<0xA4>": 1 / 3}
    assert row(fitted, "త") == pytest.approx(expected)


def test_an_added_token_is_decomposed_by_its_vocabulary_string(byte_level, spelled, row):
    source, target = byte_level([]), byte_level([])
    target.add_tokens(["త a"])
    fitted = initializer("mean").fit(source, target)
    first, second, third = spelled("త")
    assert row(fitted, "త a") == pytest.approx(
        dict.fromkeys((first, second, third, "Ġ", "a"), 1 / 5)
    )


def test_a_token_without_a_known_piece_falls_back_to_the_mean_of_all(byte_fallback, row):
    source = byte_fallback([], fallback=False)
    target = byte_fallback([], new_characters="త", fallback=False)
    fitted = initializer("mean").fit(source, target, n_source=len(source) + 5)
    assert fitted.fallbacks_ == ["త"]
    assert set(row(fitted, "త").values()) == {1 / len(source)}
    assert len(row(fitted, "త")) == len(source)


@pytest.fixture(scope="module")
def pieces_of(bert_tokenizer, mistral_tokenizer):
    """Pieces in one tokenizer of a token of the other."""
    tokenizers = {"bert": bert_tokenizer, "mistral": mistral_tokenizer}
    pairs = {
        name: pair_vocabularies(source, *(t for t in tokenizers.values() if t is not source))
        for name, source in tokenizers.items()
    }

    def look(source, token):
        pair = pairs[source]
        (found,) = decompose(pair, [pair.target_tokenizer.get_vocab()[token]])
        return pair.source_tokenizer.convert_ids_to_tokens(found)

    return look


@pytest.mark.parametrize(
    ("token", "pieces"),
    [
        ("▁Because", ["because"]),  # BERT lower-cases
        ("▁citiz", ["ci", "##ti", "##z"]),
        ("unfinished", ["##un", "##fin", "##ished"]),
        ("++)", ["+", "+", ")"]),
        ("▁);", [")", ";"]),
        ("xE", ["##x", "##e"]),
        ("<0xE0>", []),
    ],
)
def test_wordpiece_pieces_of_a_sentencepiece_token(pieces_of, token, pieces):
    assert pieces_of("bert", token) == pieces


@pytest.mark.parametrize(
    ("token", "pieces"),
    [
        ("wikipedia", ["▁w", "ik", "ipedia"]),
        ("taxpayer", ["▁tax", "p", "ayer"]),
        ("##shing", ["sh", "ing"]),
        ("ᵘ", ["▁", "<0xE1>", "<0xB5>", "<0x98>"]),
        ("[MASK]", []),
    ],
)
def test_sentencepiece_pieces_of_a_wordpiece_token(pieces_of, token, pieces):
    assert pieces_of("mistral", token) == pieces


def test_a_token_is_normalized_as_the_source_does(byte_level, spelled, row):
    source, (first, second) = byte_level([]), spelled("\u0301")
    target = byte_level([("e", first), (f"e{first}", second)])
    source.backend_tokenizer.normalizer = normalizers.NFC()
    fitted = initializer("mean").fit(source, target)
    composed = dict.fromkeys(spelled("é"), 0.5)
    assert row(fitted, spelled("e\u0301")) == composed


def test_a_new_special_token_has_no_pieces_and_is_the_mean_of_all(byte_level):
    source, target = byte_level([]), byte_level([])
    target.add_special_tokens({"mask_token": "[MASK]"})
    fitted = initializer("mean").fit(source, target)
    assert fitted.fallbacks_ == ["[MASK]"]
    assert fitted.weights_[[target.mask_token_id]].nnz == len(source)


@pytest.mark.parametrize("cuts", [True, False])
def test_a_token_with_marks_is_decomposed_as_the_source_splits_words(
    cuts, byte_level, spelled, row
):
    # A letter of three bytes and its vowel sign, of the same first two. The source has a token of
    # the last byte and the first one, which is never used in words that are cut between both.
    letters = spelled("కా")
    across = (letters[2], letters[3])
    chain = [(letters[:length], letters[length]) for length in range(1, len(letters))]
    source, target = byte_level([across]), byte_level([across, *chain])
    source.backend_tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=cuts)
    pieces = list(letters) if cuts else [*letters[:2], letters[2:4], *letters[4:]]
    expected = {piece: pieces.count(piece) / len(pieces) for piece in pieces}
    assert row(initializer("mean").fit(source, target), letters) == pytest.approx(expected)


def test_a_spelling_tokenized_as_text_begins_a_word(byte_fallback, row):
    source, target = byte_fallback([]), byte_fallback([], new_merges=[("a", "b")])
    fitted = initializer("mean", pieces="spelling").fit(source, target)
    assert row(fitted, "ab") == pytest.approx({"▁": 1 / 3, "a": 1 / 3, "b": 1 / 3})


def test_a_byte_level_spelling_tokenized_as_text_is_encoded_twice(byte_level, spelled, row):
    first, second, third = spelled("త")
    source, target = byte_level([]), byte_level([(first, second), (first + second, third)])
    fitted = initializer("mean", pieces="spelling").fit(source, target)
    twice = spelled(spelled("త"))
    assert len(twice) == 6
    expected = {letter: twice.count(letter) / 6 for letter in twice}
    assert row(fitted, spelled("త")) == pytest.approx(expected)


def test_a_token_is_the_mean_of_its_source_pieces(byte_level, row):
    source, target = byte_level([("a", "b")]), byte_level([("a", "b"), ("ab", "c")])
    fitted = initializer("mean").fit(source, target)
    assert row(fitted, "abc") == {"ab": 0.5, "c": 0.5}


def test_bytes_of_incomplete_characters_are_not_encoded_twice(byte_level, spelled, row):
    first, second, _ = spelled("త")
    fitted = initializer("mean").fit(byte_level([]), byte_level([(first, second)]))
    assert row(fitted, first + second) == {first: 0.5, second: 0.5}


def test_no_space_is_put_before_a_token_that_begins_no_word(byte_fallback, row):
    source, target = byte_fallback([]), byte_fallback([], new_merges=[("a", "b")])
    assert row(initializer("mean").fit(source, target), "ab") == {"a": 0.5, "b": 0.5}


def test_bytes_of_the_pieces_make_up_the_token(smollm2_cut, expanded_telugu):
    pair = initializer("mean").fit(smollm2_cut, expanded_telugu).pair_
    for token_id, pieces in zip(pair.new_ids, decompose(pair, pair.new_ids.tolist()), strict=True):
        assert b"".join(pair.source_bytes[i] for i in pieces) == pair.target_bytes[token_id]
