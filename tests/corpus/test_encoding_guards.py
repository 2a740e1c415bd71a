"""Text in the wrong encoding: always counted, repaired only on request."""

import csv
import io
from dataclasses import asdict
from unicodedata import normalize

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lexigraft.bundled.loaders.catalogue import read_catalogue
from lexigraft.corpus.cleaning import (
    REPAIRS,
    CleaningCounts,
    cleaned_pairs,
    is_zawgyi,
    repair,
    without_csv_quotes,
)

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
    unicode = [line for line in burmese if not is_zawgyi(line)]
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
    assert [message for message in messages if is_zawgyi(message)] == [
        "ေဆာရီးပါ ၎ကိုကၽြႏ္ုပ္နားမလည္ပါ",
        "သင့္အေျဖဟာ မွန္သင့္သေလာက္ မွန္ပါတယ္။ ဒါေပမဲ့ ဒီထက္ရွင္းဖို႔ လုိေသးတယ္။",
        "ဖတ္ေနတဲ့ စာပိုဒ္ရဲ႕ အစ",
        "သင်၏အတန္းအတြက္ သင္တစ္ခုခုေရြးခ်ယ္လိုက္သည္ကိုေသခ်ာေစပါ",
    ]
