"""The script and language of lines, and their markup."""

import pytest

from lexigraft.corpus.cleaning import CleaningCounts
from lexigraft.corpus.identification import is_english, is_in_language, script_of
from lexigraft.corpus.markup import has_markup, strip_markup
from lexigraft.corpus.reading import draw_text

TAMIL, RUSSIAN = "இன்று மழை பெய்தது", "Сегодня шёл дождь"
ENGLISH, GERMAN = "The rain of this week was heavy", "Heute hat es in Berlin viel geregnet"


@pytest.mark.parametrize(
    ("line", "script", "code", "expected"),
    [
        (TAMIL, "Taml", "ta", True),
        (f"{TAMIL} (BBC)", "Taml", "ta", True),
        (RUSSIAN, "Taml", "ta", False),
        ("12.3.2020", "Taml", "ta", False),
        ("今日は雨が降った", "Jpan", "ja", True),
        ("東京大学 出版会 カ", "Hira", "ja", True),
        (GERMAN, "Latn", "de", True),
        (ENGLISH, "Latn", "de", False),
        (ENGLISH, "Latn", "en", True),
    ],
)
def test_lines_are_in_a_language_by_their_letters(line, script, code, expected):
    assert is_in_language(line, script, code) is expected


def test_the_script_is_that_of_most_letters():
    assert script_of([TAMIL, TAMIL, "abc"])[0] == "Taml"
    assert script_of(["123"]) == ("Zyyy", 0)


def test_english_is_recognized_by_its_frequent_words(english):
    sentences = [line for line in english if len(line.split()) > 7]
    assert sum(map(is_english, sentences)) > 0.4 * len(sentences)
    assert not any(map(is_english, [TAMIL, RUSSIAN, GERMAN, "Is dit groen of blauw in de stad"]))


@pytest.mark.parametrize(
    ("line", "stripped"),
    [
        (f"<p class='a'>{TAMIL}&nbsp;<b>2 &lt; 3</b></p>", f"{TAMIL}\xa02 < 3"),
        (f"## {TAMIL}", TAMIL),
        (f"* a **{TAMIL}** [b](https://c.d) `e`", f"a {TAMIL} b e"),
        ("1. *maji* na ![mvua](a.png)", "maji na mvua"),
        ("```python", ""),
        ("|---|:--|", ""),
    ],
)
def test_markup_is_recognized_and_stripped(line, stripped):
    assert strip_markup(line) == stripped
    assert not has_markup(stripped)


@pytest.mark.parametrize("line", [TAMIL, "2 < 3 * 4 * 5 > 1", "snake_case_name & co", "a <- b"])
def test_text_without_markup_is_left_alone(line):
    assert not has_markup(line) and strip_markup(line) == line


def test_other_languages_and_markup_are_left_out_of_a_corpus(tmp_path):
    lines = [line for i in range(5) for line in (f"<i>{TAMIL} {i}</i>", f"{RUSSIAN} {i}", ENGLISH)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    language = {
        "name": "Tamil", "code": "ta", "script": "Taml", "minimum_characters": 1, "markup": "strip",
        "only_language": True, "text": {"loader": "text", "paths": [str(tmp_path / "a.txt")]},
    }  # fmt: skip
    counts = CleaningCounts()
    drawn = draw_text(language, tmp_path / "out", ("0",), counts, None, None)
    assert list(drawn) == [f"{TAMIL} {i}" for i in range(5)]
    assert (counts.read, counts.kept, counts.other_language, counts.duplicate) == (15, 5, 10, 0)
