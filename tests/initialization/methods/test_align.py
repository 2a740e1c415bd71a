from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from lexigraft.initialization.methods import align
from lexigraft.initialization.pairing import pair_vocabularies
from lexigraft.initialization.registry import initializer
from lexigraft.vocabulary.expand import expand_tokenizer


def spans(ids, pieces):
    """(id, first byte, end) of every token of one sentence."""
    found, at = [], 0
    for i in ids:
        found.append((i, at, at + len(pieces[i])))
        at = found[-1][2]
    return found


def by_definition(pair, sentences):
    """Each new token's variants with their frequencies, sentence by sentence."""
    variants = defaultdict(Counter)
    for text in sentences:
        old, new = (
            spans(tokenizer(text, add_special_tokens=False)["input_ids"], pieces)
            for tokenizer, pieces in (
                (pair.source_tokenizer, pair.source_bytes),
                (pair.target_tokenizer, pair.target_bytes),
            )
        )
        for token, start, end in new:
            if token not in pair.new_ids:
                continue
            within = tuple(i for i, a, b in old if start <= a and b <= end)
            around = tuple(i for i, a, b in old if a <= start and end <= b)
            overlapping = tuple(i for i, a, b in old if a < end and start < b)
            variants[token][within or around or overlapping] += 1
    rows = {}
    for token, counts in variants.items():
        rows[token] = np.zeros(pair.n_source)
        for variant, count in counts.items():
            for i in variant:
                rows[token][i] += count / counts.total() / len(variant)
    return rows


def assert_equals_the_definition(fitted, sentences):
    expected = by_definition(fitted.pair_, sentences)
    weights = fitted.weights_
    for token, row in expected.items():
        np.testing.assert_allclose(weights[[token]].toarray()[0], row, atol=1e-12)
    seen = set(fitted.new_ids[fitted.occurrences_ > 0].tolist())
    assert seen == set(expected)
    return expected


def test_all_occurrences_in_a_sentence_count(byte_level, row):
    source, target = byte_level([("a", "b")]), byte_level([("a", "b")], first=[("x", "a")])
    fitted = initializer("align").fit(source, target, corpus=["xa,xa,xab", "b,xab"])
    assert fitted.occurrences_.tolist() == [4]
    assert row(fitted, "xa") == pytest.approx({"x": 3 / 4, "a": 1 / 4})


def test_an_occurrence_inside_a_source_token_aligns_to_it(byte_level, row):
    merges = [("a", "b"), ("ab", "c")]
    source, target = byte_level(merges), byte_level(merges, first=[("b", "c")])
    fitted = initializer("align").fit(source, target, corpus=["abc"])
    assert row(fitted, "bc") == {"abc": 1.0}


def test_overlapping_source_tokens_count_if_none_is_within(byte_level, row):
    merges = [("a", "b"), ("c", "d")]
    source, target = byte_level(merges), byte_level(merges, first=[("b", "c")])
    fitted = initializer("align").fit(source, target, corpus=["abcd"])
    assert row(fitted, "bc") == {"ab": 0.5, "cd": 0.5}


def test_a_token_that_does_not_occur_falls_back_to_its_pieces(byte_level, row):
    source, target = byte_level([("a", "b")]), byte_level([("a", "b"), ("ab", "c"), ("d", "e")])
    fitted = initializer("align").fit(source, target, corpus=["de"])
    assert fitted.fallbacks_ == ["abc"]
    assert row(fitted, "abc") == {"ab": 0.5, "c": 0.5}
    assert fitted.statistics()["share_fallback"] == 0.5


def test_the_token_that_begins_a_text_does_not_count(byte_level, row):
    source, target = byte_level([]), byte_level([("a", "b")])
    for tokenizer in (source, target):
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", tokenizer.bos_token_id)]
        )
    fitted = initializer("align").fit(source, target, corpus=["ab", "<s>ab"])
    assert fitted.occurrences_.tolist() == [2]
    assert row(fitted, "ab") == {"a": 0.5, "b": 0.5}


def test_a_sentence_with_an_unknown_character_counts_without_it(byte_fallback, row):
    source = byte_fallback([], fallback=False)
    target = byte_fallback([], new_characters="త", new_merges=[("a", "b")], fallback=False)
    fitted = initializer("align").fit(source, target, corpus=["ab", "త ab", "ab"])
    assert (fitted.sentences_, fitted.sentences_by_characters_) == (3, 1)
    assert fitted.statistics()["sentences_by_characters"] == 1
    assert fitted.occurrences_.tolist() == [0, 3]  # an unknown token is no evidence for త
    assert row(fitted, "ab") == {"a": 0.5, "b": 0.5}


def test_a_space_that_one_tokenizer_adds_is_not_part_of_the_text(byte_level, byte_fallback, row):
    # "abc a" is ab|c|Ġ|a to the source and ▁ab|c|▁a to the target.
    source, target = byte_level([("a", "b")]), byte_fallback([("a", "b"), ("▁", "ab"), ("▁", "a")])
    fitted = initializer("align").fit(source, target, corpus=["abc a"])
    assert row(fitted, "▁ab") == {"ab": 1.0}
    assert row(fitted, "▁a") == {"Ġ": 0.5, "a": 0.5}
    back = initializer("align").fit(
        target, byte_level([("a", "b"), ("ab", "c")]), corpus=["abc a", "xabc"]
    )
    assert row(back, "abc") == {"▁ab": 0.25, "c": 0.5, "ab": 0.25}


@pytest.fixture
def wordpiece():
    """Factory of lower-casing WordPiece tokenizers: letters a to f, outside, inside, and more."""

    def build(*pieces):
        tokens = ["[UNK]", *"abcdef.", *(f"##{letter}" for letter in "abcdef"), *pieces]
        vocabulary = {token: number for number, token in enumerate(tokens)}
        backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
        backend.normalizer = normalizers.BertNormalizer(lowercase=True)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]")

    return build


def test_a_wordpiece_word_includes_the_space_before_it(byte_level, wordpiece, row):
    # "De abc." is D|e|Ġa|b|c|. to the source, and to the target, which lower-cases, d|##e|abc|.
    source, target = byte_level([("Ġ", "a")]), wordpiece("abc")
    fitted = initializer("align").fit(source, target, corpus=["De abc."])
    assert fitted.sentences_by_characters_ == 1
    assert row(fitted, "abc") == pytest.approx({"Ġa": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    # Words alone stand for the text's letters with the space that begins a word.
    assert row(fitted, "d") == {"D": 1.0}


def test_a_wordpiece_source_is_aligned_by_characters(byte_level, wordpiece, row):
    source = wordpiece("abc", "##cd")
    target = byte_level([("a", "b"), ("ab", "c"), ("Ġ", "abc"), ("c", "d"), (".", "a")])
    fitted = initializer("align").fit(source, target, corpus=["Fcd abc .ab"])
    assert row(fitted, "Ġabc") == {"abc": 1.0}
    assert row(fitted, "cd") == {"##cd": 1.0}
    assert row(fitted, ".a") == {".": 0.5, "a": 0.5}


@pytest.mark.parametrize("source", ["bert_tokenizer", "mistral_tokenizer"])
def test_alignment_by_bytes_equals_alignment_by_characters(request, source, english):
    names = {"bert_tokenizer", "mistral_tokenizer"} - {source}
    source, target = request.getfixturevalue(source), request.getfixturevalue(names.pop())
    # Lower case and no punctuation: both families rebuild these texts.
    texts = ["".join(c for c in text.lower() if c.isalpha() or c == " ") for text in english]
    texts = [" ".join(text.split()) for text in texts]
    sides = [(source, "source_bytes"), (target, "target_bytes")]
    pair = pair_vocabularies(source, target)
    begins = np.cumsum([0, *(len(text.encode()) + 1 for text in texts)])[:-1]
    for tokenizer, pieces in sides:
        tokens = align._Tokens(tokenizer, getattr(pair, pieces))
        spans, others = align._spans(tokens, texts, begins)
        assert len(others) < len(texts) / 20
        again = align._by_characters(tokens, dict(enumerate(texts)), begins)
        np.testing.assert_array_equal(spans, np.concatenate([*again], axis=1))


def test_batches_do_not_change_the_recipe(byte_level, monkeypatch):
    source, target = byte_level([("a", "b")]), byte_level([("a", "b")], first=[("x", "a")])
    corpus = ["xa xab", "b", "xab xab", "", "xa"] * 3
    whole = initializer("align").fit(source, target, corpus=corpus)
    monkeypatch.setattr("lexigraft.source.encoding._CHARACTERS_AT_ONCE", 6)
    pieces = initializer("align").fit(source, target, corpus=corpus)
    np.testing.assert_allclose(pieces.weights_.toarray(), whole.weights_.toarray(), atol=1e-15)
    assert pieces.occurrences_.tolist() == whole.occurrences_.tolist()


@st.composite
def vocabularies(draw):
    """Merges of a source, and new merges of a higher or lower priority."""
    tokens, merges = list("abc"), []
    for _ in range(draw(st.integers(0, 8))):
        pair = (draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens)))
        if "".join(pair) not in tokens:
            tokens.append("".join(pair))
            merges.append(pair)
    cut = draw(st.integers(0, len(merges)))
    return merges[:cut], merges[cut:], draw(st.booleans())


@given(vocabularies(), st.lists(st.text("abc é", max_size=12), min_size=1, max_size=6))
@settings(max_examples=60)
def test_it_equals_the_definition(byte_level, vocabulary, corpus):
    old, new, new_first = vocabulary
    source = byte_level(old)
    target = byte_level(old, first=new) if new_first else byte_level([*old, *new])
    fitted = initializer("align").fit(source, target, corpus=corpus)
    assert_equals_the_definition(fitted, corpus)
    np.testing.assert_allclose(fitted.weights_.sum(axis=1), 1)
    assert (fitted.weights_.data >= 0).all()


def test_it_equals_the_definition_on_real_text(smollm2_cut, telugu):
    target = expand_tokenizer(smollm2_cut, telugu, 80, merges="auxiliary-first")
    fitted = initializer("align").fit(smollm2_cut, target, corpus=telugu[:200])
    assert len(assert_equals_the_definition(fitted, telugu[:200])) > 40


def test_an_occurrence_aligns_to_the_source_tokens_within_it(byte_level, row):
    source, target = byte_level([("a", "b")]), byte_level([("a", "b"), ("ab", "c")])
    fitted = initializer("align").fit(source, target, corpus=["abc", "d"])
    assert row(fitted, "abc") == {"ab": 0.5, "c": 0.5}
    assert fitted.occurrences_.tolist() == [1]


def test_variants_are_weighted_by_frequency(byte_level, row):
    # The source reads "xa" as x|a, but "xab" as x|ab, where only x lies within the new token.
    source, target = byte_level([("a", "b")]), byte_level([("a", "b")], first=[("x", "a")])
    fitted = initializer("align").fit(source, target, corpus=["xa", "xa", "xab"])
    assert row(fitted, "xa") == pytest.approx({"x": 2 / 3, "a": 1 / 3})


def test_neighbours_that_only_touch_the_new_token_do_not_count(byte_level, row):
    merges = [("c", "d"), ("b", "cd")]
    source, target = byte_level(merges), byte_level(merges, first=[("b", "c")])
    fitted = initializer("align").fit(source, target, corpus=["abcd"])  # a|bcd and a|bc|d
    assert row(fitted, "bc") == {"bcd": 1.0}


def test_bytes_of_one_character_are_distinguished(byte_level, spelled, row):
    first, second, third = spelled("త")
    source = byte_level([(first, second)])
    target = byte_level([(first, second)], first=[(second, third)])
    fitted = initializer("align").fit(source, target, corpus=["త"])
    # The source reads (1 2)(3): byte 3 lies within the new (2 3), (1 2) only overlaps it.
    assert row(fitted, second + third) == {third: 1.0}


def test_letters_that_a_normalizer_splits_keep_their_position(byte_level, row):
    source, target = byte_level([]), byte_level([("f", "i"), ("fi", "n")])
    source.backend_tokenizer.normalizer = normalizers.NFKC()
    target.backend_tokenizer.normalizer = normalizers.NFKC()
    fitted = initializer("align").fit(source, target, corpus=["ﬁn ﬁ"])
    assert fitted.sentences_by_characters_ == 1
    assert row(fitted, "fin") == pytest.approx({"f": 1 / 3, "i": 1 / 3, "n": 1 / 3})
    assert row(fitted, "fi") == {"f": 0.5, "i": 0.5}


@given(vocabularies(), st.lists(st.text("abc é", max_size=12), min_size=1, max_size=6))
@settings(max_examples=40)
def test_where_every_occurrence_covers_the_same_tokens_it_equals_the_mean(
    byte_level, vocabulary, corpus
):
    old, new, _ = vocabulary
    source, target = byte_level(old), byte_level([*old, *new])  # new merges last
    align = initializer("align").fit(source, target, corpus=corpus).weights_
    mean = initializer("mean").fit(source, target).weights_
    np.testing.assert_allclose(align.toarray(), mean.toarray(), atol=1e-12)
