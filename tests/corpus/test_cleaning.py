"""Cleaning: what is repaired, what is dropped, and the counts."""

import unicodedata
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexigraft.corpus.cleaning import CleaningCounts, clean, cleaned, cleaned_pairs

LEFT = {"mojibake", "zawgyi", "csv_quotes", "lost_characters"}
DROPPED = ("blank", "too_short", "placeholder", "duplicate")


def counted(counts):
    """Only the counts that are not zero."""
    return {name: number for name, number in asdict(counts).items() if number}


@pytest.mark.parametrize(
    ("line", "sentence", "count"),
    [
        ("a b\r", "a b", "windows_line_ends"),
        ("\ufeffa b", "a b", "byte_order_mark"),
        ("a\ufeff b", "a b", "byte_order_mark"),
        ("cafe\u0301", "café", "not_nfc"),
        ("a\x00 \x07b", "a b", "control_characters"),
        ("a\u2028b", "a b", "control_characters"),
        ("a\rb", "a b", "control_characters"),
        ("a\ud800b", "ab", "control_characters"),
    ],
)
def test_repairs_are_made_and_counted(line, sentence, count):
    sentences, counts = clean([line])
    assert sentences == [sentence]
    assert counted(counts) == {"read": 1, "kept": 1, count: 1}


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("", "blank"),
        (" \t\u00a0", "blank"),
        ("abcd", "too_short"),
        ("Hello, {name}!", "placeholder"),
        ("{0} of {1}", "placeholder"),
        ("{ count, number } files", "placeholder"),
        ("Could not open %s today", "placeholder"),
        ("%1$d of %2$d files", "placeholder"),
        ("Dear %(name)s, hello", "placeholder"),
        ("a sentence", "duplicate"),
    ],
)
def test_a_line_is_dropped_and_counted(line, count):
    sentences, counts = clean(["a sentence", line], minimum_characters=5)
    assert sentences == ["a sentence"]
    assert counted(counts) == {"read": 2, "kept": 1, count: 1}


@given(st.lists(st.text(st.characters(), max_size=12), max_size=30), st.integers(0, 5))
def test_the_output_for_any_input_is_clean_and_counted(lines, minimum):
    sentences, counts = clean(lines, minimum)
    assert counts.read == counts.kept + sum(getattr(counts, name) for name in DROPPED)
    assert counts.kept == len(sentences) == len(set(sentences))
    for sentence in sentences:
        assert len(sentence) >= max(minimum, 1)
        assert sentence == sentence.strip()
        assert len(sentence.splitlines()) == 1
        assert unicodedata.is_normalized("NFC", sentence)
        assert sentence.encode("utf-8").decode("utf-8") == sentence


@given(st.lists(st.text(st.characters(), max_size=12), max_size=30))
def test_cleaning_twice_changes_nothing(lines):
    sentences, _ = clean(lines)
    again, counts = clean(sentences)
    assert again == sentences
    # What cleaning only counts unless it is asked to repair it is there again.
    assert counted(counts).keys() - LEFT <= {"read", "kept"}


def test_pairs_are_cleaned_on_both_sides():
    pairs = [
        ("A house\r", "ఇల్లు"),
        ("A house", "ఇల్లు"),
        ("A house", "గృహం"),
        ("", "ఇల్లు"),
        ("Hi {name}", "హలో"),
        ("two\nlines", "x"),
    ]
    counts = CleaningCounts()
    assert list(cleaned_pairs(pairs, counts)) == [
        ("A house", "ఇల్లు"),
        ("A house", "గృహం"),
        ("two lines", "x"),
    ]
    expected = {"read": 6, "kept": 3, "duplicate": 1, "blank": 1, "placeholder": 1}
    assert counted(counts) == {**expected, "windows_line_ends": 1}


def test_a_limited_memory_lets_later_sentences_come_again():
    counts = CleaningCounts()
    lines = ["one", "two", "three", "one", "three", "two", "three"]
    kept = list(cleaned(lines, counts, remembered=2))
    assert kept == ["one", "two", "three", "three", "three"]
    assert counted(counts) == {"read": 7, "kept": 5, "duplicate": 2}
