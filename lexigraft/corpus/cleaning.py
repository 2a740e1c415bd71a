"""Clean raw lines: normalize them, remove debris and duplicates, and count every change.

Line ends, byte order marks, control characters and decomposed letters are always repaired. Text
written in one encoding and read in another is detected line by line; these rules can be wrong, so
they only repair what a language's `repair` setting lists.

Zawgyi encodes Burmese with Unicode's code points, but in the order in which the strokes are drawn
and with its own code points for shapes. Until 2019, most Burmese on the web was in Zawgyi, and some
test sets still are. The detector is Google's myanmartools (a Markov model over code points), the
conversion is that of the Unicode CLDR, as implemented by ICU.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any

import ftfy

ZAWGYI, QUOTES, MOJIBAKE = "zawgyi", "quotes", "mojibake"
REPAIRS = (ZAWGYI, QUOTES, MOJIBAKE)  # the values of a language's `repair` setting
# Distinct sentences whose duplicates are recognized in a text of any length: about 120 MB.
REMEMBERED = 1_000_000

# Placeholders of programs: {name}, {0}, {count, number}, %s, %1$d, %(name)s.
_PLACEHOLDER = re.compile(r"\{\s*\w*\s*(?:,\s*[a-z][^{}]*)?\}|%(?:\d+\$|\(\w+\))?[sd](?!\w)")
_BYTE_ORDER_MARK, _REPLACEMENT = "\ufeff", "\ufffd"
# A field of a CSV file, in which every quote is doubled.
_CSV_FIELD = re.compile(r'"((?:[^"]|"")*)"')
# UTF-8 that was read as a Windows encoding has such pairs: a lead byte as a letter of Latin-1 or
# (Р, С) of Windows-1251, followed by a byte above ASCII. Most such pairs are correct text; only
# lines with one are passed to ftfy, which takes fifty times as long.
_SUSPICIOUS = re.compile("[\u00c2-\u00f4][^\0-\x7f]|[РС][^\0-\x7fа-яё]")
# The detector's authors advise 0.95 for conversion without review. Interface messages are short: of
# Kolibri's 1,660 Burmese messages, 0.95 mistakes two in Unicode for Zawgyi, and 0.99 none.
_ZAWGYI_PROBABILITY = 0.99
_BURMESE = re.compile("[\u1000-\u109f]")


@dataclass
class CleaningCounts:
    """Counts of lines; `read` = `kept` + the dropped lines."""

    read: int = 0
    kept: int = 0
    # Dropped.
    blank: int = 0
    too_short: int = 0
    placeholder: int = 0
    duplicate: int = 0
    other_language: int = 0
    # Always repaired.
    windows_line_ends: int = 0
    byte_order_mark: int = 0
    control_characters: int = 0
    not_nfc: int = 0  # not in Unicode normal form C
    # Repaired on request.
    mojibake: int = 0  # UTF-8 that was read as another encoding: schÃ¶n
    zawgyi: int = 0
    csv_quotes: int = 0  # a quoted field of a CSV file, as some lines of FLORES-200 are
    # Never repaired: the replacement character for bytes that a decoder cannot decode.
    lost_characters: int = 0


def clean(lines: Iterable[str], minimum_characters: int = 1) -> tuple[list[str], CleaningCounts]:
    """Clean lines; returns the distinct sentences in order, and the counts.

    A text with line feeds counts as several lines. Every sentence is in Unicode normal form C,
    without control characters, line breaks, surrogates, or white space at its ends.
    """
    counts = CleaningCounts()
    return list(cleaned(lines, counts, minimum_characters)), counts


def cleaned(
    lines: Iterable[str],
    counts: CleaningCounts,
    minimum_characters: int = 1,
    remembered: int | None = None,
    repairs: Collection[str] = (),
    seen: set[bytes] | None = None,
    keep: Callable[[str], bool] | None = None,
) -> Iterator[str]:
    """`clean` for streams: yields the sentences and updates `counts`.

    Duplicates are recognized of the first `remembered` distinct sentences (by default all), whose
    fingerprints are in `seen`. `repairs` is a subset of `REPAIRS`, as in the other functions.
    Sentences for which `keep` is false are dropped as those of another language.
    """
    seen = set() if seen is None else seen
    for text in lines:
        for line in text.removesuffix("\n").split("\n"):
            counts.read += 1
            sentence = repair(line, counts, repairs)
            if not sentence:
                counts.blank += 1
            elif len(sentence) < minimum_characters:
                counts.too_short += 1
            elif _PLACEHOLDER.search(sentence):
                counts.placeholder += 1
            elif (key := fingerprint(sentence)) in seen:
                counts.duplicate += 1
            elif keep is not None and not keep(sentence):
                counts.other_language += 1
            else:
                if remembered is None or len(seen) < remembered:
                    seen.add(key)
                counts.kept += 1
                yield sentence


def cleaned_pairs(
    pairs: Iterable[tuple[str, str]],
    counts: CleaningCounts,
    *,
    paragraphs: bool = False,
    repairs: Collection[str] = (),
) -> Iterator[tuple[str, str]]:
    """Repair both sides of streamed pairs, each as one line; drop a pair if either side is debris.

    With `paragraphs`, the source side is an article: it keeps its line breaks, without blank lines.
    """
    seen: set[bytes] = set()
    for left, right in pairs:
        counts.read += 1
        target = repair(right.strip("\n").replace("\n", " "), counts, repairs)
        lines = left.split("\n") if paragraphs else [left.strip("\n").replace("\n", " ")]
        source = "\n".join(filter(None, (repair(line, counts, repairs) for line in lines)))
        if not source or not target:
            counts.blank += 1
        elif _PLACEHOLDER.search(source) or _PLACEHOLDER.search(target):
            counts.placeholder += 1
        elif (key := fingerprint(source, target)) in seen:
            counts.duplicate += 1
        else:
            seen.add(key)
            counts.kept += 1
            yield source, target


def repair(line: str, counts: CleaningCounts, repairs: Collection[str] = ()) -> str:
    """Remove debris from a line, convert it to Unicode normal form C, and count every change."""
    if line.endswith("\r"):
        counts.windows_line_ends += 1
        line = line.removesuffix("\r")
    if _BYTE_ORDER_MARK in line:
        counts.byte_order_mark += 1
        line = line.replace(_BYTE_ORDER_MARK, "")
    # Before control characters are removed, since they are part of mojibake.
    if not line.isascii():
        if _SUSPICIOUS.search(line):
            # A byte order mark may have been misread, too.
            fixed = ftfy.fix_encoding(line).replace(_BYTE_ORDER_MARK, "")
            counts.mojibake += fixed != line
            line = fixed if MOJIBAKE in repairs else line
        converted = from_zawgyi(line)
        counts.zawgyi += converted != line
        line = converted if ZAWGYI in repairs else line
        counts.lost_characters += _REPLACEMENT in line
    if (plain := without_csv_quotes(line)) != line:
        counts.csv_quotes += 1
        line = plain if QUOTES in repairs else line
    if not line.isascii() or not line.isprintable():
        plain = line.translate(_DEBRIS)
        if plain != line.replace("\t", " "):
            counts.control_characters += 1
        line = plain
        if not unicodedata.is_normalized("NFC", line):
            counts.not_nfc += 1
            line = unicodedata.normalize("NFC", line)
    return line.strip()


def fingerprint(*texts: str) -> bytes:
    """A 16-byte hash, to store millions of texts."""
    return blake2b("\n".join(texts).encode(), digest_size=16).digest()


def without_csv_quotes(line: str) -> str:
    r"""The content of a line that is a quoted field of a CSV file; any other line unchanged.

    Such a line has at least one quote between its first and its last, all of which are doubled.

    >>> without_csv_quotes('"He said ""yes""."')
    'He said "yes".'
    >>> without_csv_quotes('"He said yes."')
    '"He said yes."'
    """
    field = _CSV_FIELD.fullmatch(line.strip())
    return field[1].replace('""', '"') if field and '""' in field[1] else line


def from_zawgyi(text: str) -> str:
    """A text converted to Unicode if it is almost certainly Zawgyi; any other text unchanged."""
    if not _BURMESE.search(text):
        return text
    detector, converter = _zawgyi_tools()
    is_zawgyi = detector.get_zawgyi_probability(text) >= _ZAWGYI_PROBABILITY
    return converter.transliterate(text) if is_zawgyi else text


@cache
def _zawgyi_tools() -> tuple[Any, Any]:
    from icu import Transliterator
    from myanmartools import ZawgyiDetector

    return ZawgyiDetector(), Transliterator.createInstance("Zawgyi-my")


class _Debris(dict):
    """Translation table: line separators and tabs become spaces, control characters are dropped."""

    def __missing__(self, code: int) -> int | None:
        replacement: int | None = code
        if chr(code) in "\t\v\f\r\x85\u2028\u2029":
            replacement = ord(" ")
        elif unicodedata.category(chr(code)) in ("Cc", "Cs"):
            replacement = None
        self[code] = replacement
        return replacement


_DEBRIS = _Debris()
