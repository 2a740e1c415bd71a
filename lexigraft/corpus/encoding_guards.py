"""Text that was written in one encoding and read in another: told line by line, and undone.

Other damage (line ends, byte order marks, decomposed letters) has one right form, which cleaning
always restores. What is here is told by rules that can be wrong, so it is undone only where a
language asks for it.
"""

import re
from collections.abc import Collection
from typing import Protocol

from lexigraft.corpus.zawgyi import is_zawgyi, to_unicode

ZAWGYI, QUOTES, MOJIBAKE = "zawgyi", "quotes", "mojibake"
# What a language can ask for, see `guarded`.
REPAIRS = (ZAWGYI, QUOTES, MOJIBAKE)

# A field of a CSV file with every quote in it doubled.
_CSV_FIELD = re.compile(r'"((?:[^"]|"")*)"')
# What UTF-8 looks like when it is read as a Windows encoding begins so: a lead byte as a letter of
# Latin-1 or (Р, С) of Windows-1251, and a byte above ASCII behind it. Most such pairs are innocent;
# only the others are worth the look of a library that takes fifty times as long.
_SUSPICIOUS = re.compile("[\u00c2-\u00f4][^\0-\x7f]|[РС][^\0-\x7fа-яё]")
_LOST = "\ufffd"


class Tally(Protocol):
    """Where `guarded` counts the lines that it finds something in."""

    zawgyi: int
    csv_quotes: int
    mojibake: int
    lost_characters: int


def guarded(line: str, tally: Tally, repairs: Collection[str] = ()) -> str:
    """Count what is wrong with the encoding of a line, and undo what is in `repairs`.

    Parameters
    ----------
    line
        Without its line end.
    tally
        One is added for the line to each of: `mojibake`, UTF-8 that was read as another encoding
        (`schÃ¶n`); `zawgyi`; `csv_quotes`, a quoted field of a CSV file with its quotes doubled
        (FLORES-200 has such lines in German, Korean, Telugu and others); `lost_characters`, the
        replacement character, which a decoder left in place of what it could not read: nothing
        brings that back.
    repairs
        Of `REPAIRS`.
    """
    if not line.isascii():
        if _SUSPICIOUS.search(line) and (fixed := _decoded(line)) != line:
            tally.mojibake += 1
            line = fixed if MOJIBAKE in repairs else line
        if is_zawgyi(line):
            tally.zawgyi += 1
            line = to_unicode(line) if ZAWGYI in repairs else line
        tally.lost_characters += _LOST in line
    if (plain := without_csv_quotes(line)) != line:
        tally.csv_quotes += 1
        line = plain if QUOTES in repairs else line
    return line


def without_csv_quotes(line: str) -> str:
    r"""What a line says that is written as a field of a CSV file; any other line as it is.

    Such a line begins and ends with a quote, and between them every quote is doubled, and there is
    one. So quotations of whole lines and doubled quotes inside other text are left alone.

    >>> without_csv_quotes('"He said ""yes""."')
    'He said "yes".'
    >>> without_csv_quotes('"He said yes."')
    '"He said yes."'
    """
    field = _CSV_FIELD.fullmatch(line.strip())
    return field[1].replace('""', '"') if field and '""' in field[1] else line


def _decoded(line: str) -> str:
    from ftfy import fix_encoding

    return fix_encoding(line).replace("\ufeff", "")  # a byte order mark was read wrongly too
