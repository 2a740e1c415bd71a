"""Exact match and F1 of short answers, as SQuAD has them (Rajpurkar et al. 2016, §6.1)."""

import string
import unicodedata
from collections import Counter

_ARTICLES = {"a", "an", "the"}


def exact_match(answer: str, references: list[str]) -> float:
    """100 if the answer equals one of the references, normalized; else 0."""
    return 100.0 * any(_words(answer) == _words(reference) for reference in references)


def f1(answer: str, references: list[str]) -> float:
    """The highest F1 of the answer's words with those of a reference, 0 to 100; order is free."""
    return 100 * max(_f1(_words(answer), _words(reference)) for reference in references)


def overlap(answer: list[str], reference: list[str]) -> float:
    """F1 of the words that two texts have in common, 0 to 1; 0 where they have none."""
    common = (Counter(answer) & Counter(reference)).total()
    return 2 * common / (len(answer) + len(reference)) if common else 0.0


def without_punctuation(text: str) -> str:
    """A text without ASCII's punctuation and symbols and the punctuation of every script."""
    return "".join(character for character in text if not _is_punctuation(character))


def _f1(answer: list[str], reference: list[str]) -> float:
    return overlap(answer, reference) if answer and reference else float(answer == reference)


def _words(text: str) -> list[str]:
    """Words in lower case without punctuation and English articles.

    SQuAD's script knows ASCII punctuation alone; here that of every script counts, as in MLQA's.
    """
    plain = without_punctuation(text.lower())
    return [word for word in plain.split() if word not in _ARTICLES]


def _is_punctuation(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character).startswith("P")
