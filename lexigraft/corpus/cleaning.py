"""Raw lines become sentences: normalized, without debris, each once; everything done is counted."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

from lexigraft.corpus.encoding_guards import guarded

# What a program fills in later: {name}, {0}, {count, number}, %s, %1$d, %(name)s.
_PLACEHOLDER = re.compile(r"\{\s*\w*\s*(?:,\s*[a-z][^{}]*)?\}|%(?:\d+\$|\(\w+\))?[sd](?!\w)")
_BYTE_ORDER_MARK = "\ufeff"
# Of a text of any length, duplicates are told among so many distinct sentences: about 120 MB.
REMEMBERED = 1_000_000


@dataclass
class Counts:
    """What became of the lines read; `read` = `kept` + the lines dropped.

    Dropped: `blank`, `too_short`, `placeholder`, `duplicate` (where `remembered` is limited: those
    of the first so many sentences). Lines that are always repaired: `windows_line_ends`,
    `byte_order_mark`, `control_characters` (lines that held some) and `not_nfc` (lines that were
    not in the composed normal form). Lines that are repaired where that is asked for, see
    `encoding_guards.guarded`: `mojibake`, `zawgyi` and `csv_quotes`. Lines that nothing repairs:
    `lost_characters`.
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


def clean(lines: Iterable[str], minimum_characters: int = 1) -> tuple[list[str], Counts]:
    """Clean lines into distinct sentences, in their order.

    Parameters
    ----------
    lines
        Texts; one that holds line feeds counts as that many lines.
    minimum_characters
        Sentences with fewer code points are dropped as `too_short`.

    Returns
    -------
    sentences, counts
        Every sentence is in Unicode normal form C, without control characters, line breaks,
        surrogates, byte order marks, or white space at its ends.
    """
    counts = Counts()
    return list(cleaned(lines, counts, minimum_characters)), counts


def cleaned(
    lines: Iterable[str],
    counts: Counts,
    minimum_characters: int = 1,
    remembered: int | None = None,
    repairs: Collection[str] = (),
) -> Iterator[str]:
    """`clean` for streams: yields the sentences and updates `counts` on the way.

    Of the first `remembered` distinct sentences, or of all of them, it holds a fingerprint of 16
    bytes, not the sentence. A sentence beyond them may be yielded again. `repairs` are those of
    `encoding_guards.REPAIRS` to carry out.
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
    counts: Counts,
    *,
    paragraphs: bool = False,
    repairs: Collection[str] = (),
) -> Iterator[tuple[str, str]]:
    """Repair both sides of streamed pairs, each on one line; drop a pair if either side is debris.

    With `paragraphs` the source side is an article: it keeps its line breaks, without blank lines.
    A pair is `blank` if either side is, `duplicate` if both sides are known together. Repairs are
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


def repair(line: str, counts: Counts, repairs: Collection[str] = ()) -> str:
    """One line without debris, in normal form C; what had to be repaired is counted.

    `repairs` are those of `encoding_guards.REPAIRS` to carry out.
    """
    if line.endswith("\r"):
        counts.windows_line_ends += 1
        line = line.removesuffix("\r")
    if _BYTE_ORDER_MARK in line:
        counts.byte_order_mark += 1
        line = line.replace(_BYTE_ORDER_MARK, "")
    # Before control characters go: they are part of what a wrong encoding makes.
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
    """Sixteen bytes that stand for the texts where millions of them must be remembered."""
    return blake2b("\n".join(texts).encode(), digest_size=16).digest()


class _Debris(dict):
    """Translation table: white space that ends lines and tabs become a space, controls nothing."""

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
