"""Cleaning of raw lines: normalized, without debris and duplicates; every change is counted."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

from lexigraft.corpus.encoding_guards import guarded

# Placeholders of programs: {name}, {0}, {count, number}, %s, %1$d, %(name)s.
_PLACEHOLDER = re.compile(r"\{\s*\w*\s*(?:,\s*[a-z][^{}]*)?\}|%(?:\d+\$|\(\w+\))?[sd](?!\w)")
_BYTE_ORDER_MARK = "\ufeff"
# Distinct sentences among which duplicates are recognized in a text of any length: about 120 MB.
REMEMBERED = 1_000_000


@dataclass
class CleaningCounts:
    """Counts of lines; `read` = `kept` + the lines dropped.

    Dropped: `blank`, `too_short`, `placeholder`, `duplicate` (if `remembered` is limited, only
    duplicates of the sentences remembered). Always repaired: `windows_line_ends`,
    `byte_order_mark`, `control_characters` and `not_nfc` (not in Unicode normal form C). Repaired
    on request, see `encoding_guards.guarded`: `mojibake`, `zawgyi` and `csv_quotes`. Never
    repaired: `lost_characters`.
    """

    read: int = 0
    kept: int = 0
    blank: int = 0
    too_short: int = 0
    placeholder: int = 0
    duplicate: int = 0
    windows_line_ends: int = 0
    byte_order_mark: int = 0
    control_characters: int = 0
    not_nfc: int = 0
    mojibake: int = 0
    zawgyi: int = 0
    csv_quotes: int = 0
    lost_characters: int = 0


def clean(lines: Iterable[str], minimum_characters: int = 1) -> tuple[list[str], CleaningCounts]:
    """Clean lines and return the distinct sentences in order.

    Parameters
    ----------
    lines
        Texts; a text with line feeds counts as several lines.
    minimum_characters
        Sentences with fewer code points are dropped as `too_short`.

    Returns
    -------
    sentences, counts
        Every sentence is in Unicode normal form C, without control characters, line breaks,
        surrogates, byte order marks, or white space at its ends.
    """
    counts = CleaningCounts()
    return list(cleaned(lines, counts, minimum_characters)), counts


def cleaned(
    lines: Iterable[str],
    counts: CleaningCounts,
    minimum_characters: int = 1,
    remembered: int | None = None,
    repairs: Collection[str] = (),
) -> Iterator[str]:
    """`clean` for streams: yields the sentences and updates `counts`.

    To recognize duplicates it stores a fingerprint of 16 bytes of the first `remembered` distinct
    sentences (by default of all). Later sentences may be yielded again. `repairs` is a subset of
    `encoding_guards.REPAIRS`.
    """
    seen: set[bytes] = set()
    for text in lines:
        for line in text.removesuffix("\n").split("\n"):
            counts.read += 1
            sentence = repair(line, counts, repairs)
            key = fingerprint(sentence)
            if not sentence:
                counts.blank += 1
            elif len(sentence) < minimum_characters:
                counts.too_short += 1
            elif _PLACEHOLDER.search(sentence):
                counts.placeholder += 1
            elif key in seen:
                counts.duplicate += 1
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
    A pair is `blank` if either side is, `duplicate` if the same pair occurred before. Repairs are
    counted per side, and per line of an article.
    """
    seen: set[bytes] = set()
    for left, right in pairs:
        counts.read += 1
        target = repair(right.strip("\n").replace("\n", " "), counts, repairs)
        if paragraphs:
            lines = (repair(line, counts, repairs) for line in left.split("\n"))
            source = "\n".join(filter(None, lines))
        else:
            source = repair(left.strip("\n").replace("\n", " "), counts, repairs)
        key = fingerprint(source, target)
        if not source or not target:
            counts.blank += 1
        elif _PLACEHOLDER.search(source) or _PLACEHOLDER.search(target):
            counts.placeholder += 1
        elif key in seen:
            counts.duplicate += 1
        else:
            seen.add(key)
            counts.kept += 1
            yield source, target


def repair(line: str, counts: CleaningCounts, repairs: Collection[str] = ()) -> str:
    """One line without debris, in Unicode normal form C; repairs are counted.

    `repairs` is a subset of `encoding_guards.REPAIRS`.
    """
    if line.endswith("\r"):
        counts.windows_line_ends += 1
        line = line.removesuffix("\r")
    if _BYTE_ORDER_MARK in line:
        counts.byte_order_mark += 1
        line = line.replace(_BYTE_ORDER_MARK, "")
    # Before control characters are removed, since they are part of mojibake.
    line = guarded(line, counts, repairs)
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
    """A hash of 16 bytes, for remembering millions of texts."""
    return blake2b("\n".join(texts).encode(), digest_size=16).digest()


class _Debris(dict):
    """Translation table: line separators and tabs become spaces, control characters are dropped."""

    def __missing__(self, code: int) -> int | None:
        character = chr(code)
        category = unicodedata.category(character)
        replacement: int | None = code
        if character in "\t\v\f\r\x85\u2028\u2029":
            replacement = ord(" ")
        elif category in ("Cc", "Cs"):
            replacement = None
        self[code] = replacement
        return replacement


_DEBRIS = _Debris()
