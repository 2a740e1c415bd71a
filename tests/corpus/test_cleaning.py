"""Cleaning: what is repaired, what is dropped, and the counts."""

import csv
import io
import unicodedata
from dataclasses import asdict
from unicodedata import normalize

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lexigraft.bundled.loaders.catalogue import read_catalogue
from lexigraft.corpus.cleaning import (
    REPAIRS,
    CleaningCounts,
    clean,
    cleaned,
    cleaned_pairs,
    from_zawgyi,
    repair,
    without_csv_quotes,
)

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


# As lines of FLORES-200 are in German: with commas, so that a CSV writer put them in quotes.
QUOTED = '"Auf die Frage, was er denke, sagte er: ""Das weiß ich nicht."""'
PLAIN = 'Auf die Frage, was er denke, sagte er: "Das weiß ich nicht."'


def found(line, *repairs):
    """The line as it comes out, and what was counted."""
    counts = CleaningCounts()
    out = repair(line, counts, repairs)
    return out, {name: number for name, number in asdict(counts).items() if number}


@pytest.mark.bad_input(
    "text",
    "Zawgyi encoding, mojibake, CSV quotes",
    "counted, and repaired on request; correct text is unchanged",
)
@pytest.mark.parametrize(
    ("line", "right", "count", "name"),
    [
        (QUOTED, PLAIN, "csv_quotes", "quotes"),
        ("ေက်းဇူးတင္ပါတယ္", "ကျေးဇူးတင်ပါတယ်", "zawgyi", "zawgyi"),
        ("MÃ¼nchen ist schÃ¶n", "München ist schön", "mojibake", "mojibake"),
        ("It â€œworksâ€\x9d, he said", "It “works”, he said", "mojibake", "mojibake"),
        ("à°¤à±\x86à°²à±\x81à°—à±\x81", "తెలుగు", "mojibake", "mojibake"),
    ],
)
def test_a_wrong_encoding_is_counted_and_repaired_on_request(line, right, count, name):
    _, counted = found(line)
    assert counted[count] == 1
    others = [repair for repair in REPAIRS if repair != name]
    assert found(line, *others)[0] != right
    assert found(line, name)[0] == right


@pytest.mark.bad_input(
    "text",
    "Zawgyi encoding, mojibake, CSV quotes",
    "counted, and repaired on request; correct text is unchanged",
)
@pytest.mark.parametrize(
    "line",
    [
        "Spaß“, sagte er, „und Fuß“",  # ß and a closing quote are a valid pair of bytes
        "«À la carte» — voilà, dit-il",
        "ÀÉÎÕÜ",
        "Россия и СССР, РФ и США",
        "Ελληνικά: «ναι»",
        "Ação, coração e pão",
        "naïve café, Ærøskøbing",
    ],
)
def test_correct_text_is_not_mistaken_for_a_wrong_encoding(line):
    assert found(line, *REPAIRS) == (line, {})


def test_real_text_of_four_scripts_comes_out_as_it_went_in(telugu, greek, burmese, english):
    # Somebody typed a few of the Burmese messages in Zawgyi.
    unicode = [line for line in burmese if from_zawgyi(line) == line]
    assert len(burmese) - len(unicode) <= 4
    for line in [*telugu, *greek, *unicode, *english]:
        assert found(line, *REPAIRS) == (line, {})


@given(st.text(st.sampled_from('ab", '), min_size=1, max_size=20))
def test_what_a_csv_writer_quoted_is_what_its_reader_reads(text):
    assume('"' in text and text.strip() == text)
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow([text])
    assert without_csv_quotes(written.getvalue()) == text


def test_both_sides_of_a_pair_and_every_line_of_an_article_are_repaired():
    counts = CleaningCounts()
    (pair,) = cleaned_pairs(
        [(f"{QUOTED}\nMÃ¼nchen", QUOTED)], counts, paragraphs=True, repairs=REPAIRS
    )
    assert pair == (f"{PLAIN}\nMünchen", PLAIN)
    assert (counts.csv_quotes, counts.mojibake) == (2, 1)


def test_among_real_messages_those_typed_in_zawgyi_are_detected(kolibri):
    messages = [normalize("NFC", target) for _, target in read_catalogue(kolibri, "my")]
    assert len(messages) > 1500
    assert [message for message in messages if from_zawgyi(message) != message] == [
        "ေဆာရီးပါ ၎ကိုကၽြႏ္ုပ္နားမလည္ပါ",
        "သင့္အေျဖဟာ မွန္သင့္သေလာက္ မွန္ပါတယ္။ ဒါေပမဲ့ ဒီထက္ရွင္းဖို႔ လုိေသးတယ္။",
        "ဖတ္ေနတဲ့ စာပိုဒ္ရဲ႕ အစ",
        "သင်၏အတန္းအတြက္ သင္တစ္ခုခုေရြးခ်ယ္လိုက္သည္ကိုေသခ်ာေစပါ",
    ]


def test_texts_that_differ_only_in_their_normal_form_are_duplicates():
    assert clean(["café", "cafe\u0301"])[0] == ["café"]


@given(st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta"]), max_size=20))
def test_the_first_of_each_sentence_is_kept_in_order(lines):
    assert clean(lines)[0] == list(dict.fromkeys(lines))
