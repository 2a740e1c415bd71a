"""Text written in one encoding and read in another: detected line by line, and repaired.

Other debris (line ends, byte order marks, decomposed letters) has one correct form, which cleaning
always restores. The rules of this module can be wrong, so they only repair what a language's
`repair` setting lists.

Zawgyi writes Burmese with Unicode's code points, but in the order in which the strokes are drawn
and with its own code points for shapes. Until 2019 most Burmese on the web was in Zawgyi, and some
test sets still are. The detector is Google's myanmartools (a Markov model over code points), the
conversion is that of the Unicode CLDR, as implemented by ICU.
"""

import re
from collections.abc import Collection
from functools import cache
from typing import Any, Protocol

ZAWGYI, QUOTES, MOJIBAKE = "zawgyi", "quotes", "mojibake"
# The values of a language's `repair` setting, see `guarded`.
REPAIRS = (ZAWGYI, QUOTES, MOJIBAKE)

# A field of a CSV file with every quote in it doubled.
_CSV_FIELD = re.compile(r'"((?:[^"]|"")*)"')
# UTF-8 that was read as a Windows encoding begins like this: a lead byte as a letter of Latin-1 or
# (Р, С) of Windows-1251, followed by a byte above ASCII. Most such pairs are correct text; only
# lines with one are passed to ftfy, which takes fifty times as long.
_SUSPICIOUS = re.compile("[\u00c2-\u00f4][^\0-\x7f]|[РС][^\0-\x7fа-яё]")
_REPLACEMENT = "\ufffd"
# The detector's authors advise 0.95 for conversion without review. Interface messages are short: of
# Kolibri's 1,660 Burmese messages, 0.95 mistakes two in Unicode for Zawgyi, and 0.99 none.
_ZAWGYI_PROBABILITY = 0.99
_BURMESE = re.compile("[\u1000-\u109f]")


class EncodingCounts(Protocol):
    """The counters that `guarded` increments."""

    zawgyi: int
    csv_quotes: int
    mojibake: int
    lost_characters: int


def guarded(line: str, counts: EncodingCounts, repairs: Collection[str] = ()) -> str:
    """Count what is wrong with the encoding of a line, and repair what is in `repairs`.

    Parameters
    ----------
    line
        Without its line end.
    counts
        The line is counted under each of these that it has: `mojibake`, UTF-8 that was read as
        another encoding (`schÃ¶n`); `zawgyi`; `csv_quotes`, a quoted field of a CSV file with its
        quotes doubled (FLORES-200 has such lines in German, Korean, Telugu and others);
        `lost_characters`, the replacement character, which decoders insert for what they cannot
        read and which cannot be repaired.
    repairs
        A subset of `REPAIRS`.
    """
    if not line.isascii():
        if _SUSPICIOUS.search(line) and (fixed := _without_mojibake(line)) != line:
            counts.mojibake += 1
            line = fixed if MOJIBAKE in repairs else line
        if is_zawgyi(line):
            counts.zawgyi += 1
            line = zawgyi_to_unicode(line) if ZAWGYI in repairs else line
        counts.lost_characters += _REPLACEMENT in line
    if (plain := without_csv_quotes(line)) != line:
        counts.csv_quotes += 1
        line = plain if QUOTES in repairs else line
    return line


def without_csv_quotes(line: str) -> str:
    r"""The content of a line that is written as a field of a CSV file; any other line unchanged.

    Such a line begins and ends with a quote, and every quote between them, of which there is at
    least one, is doubled. Quotations of whole lines and doubled quotes inside other text are left
    unchanged.

    >>> without_csv_quotes('"He said ""yes""."')
    'He said "yes".'
    >>> without_csv_quotes('"He said yes."')
    '"He said yes."'
    """
    field = _CSV_FIELD.fullmatch(line.strip())
    return field[1].replace('""', '"') if field and '""' in field[1] else line


def is_zawgyi(text: str) -> bool:
    """Whether a text with Burmese letters is almost certainly in Zawgyi, and reads differently.

    Short texts may be the same in both encodings; they count as Unicode.
    """
    if not _BURMESE.search(text):
        return False
    probability = _zawgyi_detector().get_zawgyi_probability(text)
    return probability >= _ZAWGYI_PROBABILITY and zawgyi_to_unicode(text) != text


def zawgyi_to_unicode(text: str) -> str:
    """A Zawgyi text in Unicode; text in other scripts is unchanged."""
    return _zawgyi_converter().transliterate(text)


def _without_mojibake(line: str) -> str:
    from ftfy import fix_encoding

    return fix_encoding(line).replace("\ufeff", "")  # a misread byte order mark


@cache
def _zawgyi_detector() -> Any:
    from myanmartools import ZawgyiDetector

    return ZawgyiDetector()


@cache
def _zawgyi_converter() -> Any:
    from icu import Transliterator

    return Transliterator.createInstance("Zawgyi-my")
