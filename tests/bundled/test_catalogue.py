"""Interface catalogues: ICU messages worked out by hand, and Kolibri's real ones."""

import json
import re

import pytest

from lexigraft.bundled.loaders.catalogue import plain_text, read_catalogue
from lexigraft.errors import UserError


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("Delete files", "Delete files"),
        ("Server {count, plural, one {URL} other {URLs}}", "Server URLs"),
        ("No {n, plural , one { this filter } other { these filters }}!", "No these filters !"),
        ("{kind, select, exam {a quiz} other {a lesson}} is open", "a lesson is open"),
        (
            "{a, plural, one {x} other {{b, plural, one {y} other {inner}} outer}}",
            "inner outer",
        ),
        ("two  spaces\n and a line", "two spaces and a line"),
        ("You have {n, number} points", None),
        ("{n, plural, one {# file} other {# files}}", None),
        ("{n, plural, one {file}}", None),
        ("{n, plural, one {file} other {files}", None),
        ("Hello {name}", None),
        ("like <code>12</code>", None),
        ("a decimal, like $0.75$", None),
        ("12 - 5", None),
    ],
)
def test_only_messages_without_placeholders_become_text(message, text):
    assert plain_text(message) == text


def write_catalogue(folder, locale, messages, name="a-messages.json"):
    file = folder / "kolibri" / "locale" / locale / "LC_MESSAGES" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(messages), encoding="utf-8")


HOUSE = "మనం ఉంటున్న పెద్ద ఇల్లు, దాని చుట్టూ ఉన్న తోట"


def test_what_is_not_translated_is_dropped(tmp_path):
    english = {"a": "House", "b": "Door", "c": "Kolibri", "d": "Open it"}
    write_catalogue(tmp_path, "en", english)
    write_catalogue(
        tmp_path,
        "te",
        {"a": HOUSE, "b": "", "c": "Kolibri", "d": "Please open it now తెరవండి"},
    )
    assert read_catalogue(tmp_path, "te") == [("House", HOUSE)]


@pytest.mark.bad_input(
    "text",
    "an invalid message catalogue, or one without the language",
    "a one-line error message names the file or lists the available languages",
)
def test_an_unknown_locale_is_reported_with_those_there_are(tmp_path):
    write_catalogue(tmp_path, "en", {"x": "House"})
    write_catalogue(tmp_path, "de", {"x": "Haus"})
    with pytest.raises(UserError, match=r"locale 'xx': not in .*available: de, en"):
        read_catalogue(tmp_path, "xx")


@pytest.mark.bad_input(
    "text",
    "an invalid message catalogue, or one without the language",
    "a one-line error message names the file or lists the available languages",
)
@pytest.mark.parametrize("content", ["{", "[]", "\ufeff{}"])
def test_a_file_that_is_no_catalogue_is_named(content, tmp_path):
    write_catalogue(tmp_path, "en", {"x": "House"})
    write_catalogue(tmp_path, "de", {"x": "Haus"})
    file = tmp_path / "kolibri" / "locale" / "de" / "LC_MESSAGES" / "a-messages.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"a-messages\.json: not a JSON catalogue"):
        read_catalogue(tmp_path, "de")


SCRIPTS = {"te": "TELUGU", "el": "GREEK", "my": "MYANMAR", "hi_IN": "DEVANAGARI", "ar": "ARABIC"}


@pytest.mark.parametrize("locale", [*SCRIPTS, "sw_TZ", "de", "vi"])
def test_the_real_catalogues_give_over_a_thousand_real_pairs(locale, kolibri):
    pairs = read_catalogue(kolibri, locale)
    assert len(pairs) == len(set(pairs)) > 1500
    assert sum(len(source.split()) >= 4 for source, _ in pairs) > 600
    for source, target in pairs:
        assert source != target
        for text in (source, target):
            assert text == text.strip() != ""
            assert not re.search(r"[{}<>\\\n]|plural", text)
