"""Sentences that contain a test, compared with a search through all tests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexigraft.corpus.contamination import CONTAINED, Overlap, letters

words = st.sampled_from(["ఇల్లు", "తోట", "Σπίτι", "σπίτι", "ab", "AB", "a-b", "1", "2", "?", " "])
sentence = st.lists(words, min_size=1, max_size=6).map(" ".join)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Chapter 1", "chapter 27!", True),
        ("a b", "ab", True),
        ("Straße", "STRASSE", True),
        ("క్విజ్\u200cను", "క్విజ్ను", True),
        ("కి", "కు", False),  # vowel signs are marks, and make another word
        ("Öl", "Ol", False),
        ("12", "13", False),
    ],
)
def test_sentences_are_compared_by_their_letters(one, other, same):
    assert (letters(one) == letters(other)) == same


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("This is a small house", True),
        ("THIS is a small house!", True),
        ("He said: this is a small house, and left.", True),
        ("This is a small", False),
        ("Yes", True),
        ("Yes, this is so", False),  # a short test may stand inside
        ("", False),
    ],
)
def test_a_sentence_gives_a_test_away(text, found):
    assert (text in Overlap(["This is a small house.", "yes!"])) == found


@pytest.mark.parametrize(
    "text", ["abcdefghijkl at first", "in abcdefghijkl it", "last abcdefghijkl"]
)
def test_a_test_of_twelve_letters_is_found_at_any_position(text):
    assert text in Overlap(["Abcdef ghijkl!"])
    assert text not in Overlap(["bcdefghijkl"])


@given(st.lists(sentence, max_size=8), sentence)
def test_the_index_finds_what_a_search_through_all_tests_finds(tests, text):
    keys = {letters(test) for test in tests}
    expected = letters(text) in keys or any(
        key in letters(text) for key in keys if len(key) >= CONTAINED
    )
    assert (text in Overlap(tests)) == expected
