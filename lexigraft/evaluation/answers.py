"""Exact match and F1 of short answers, with the rules of SQuAD and with those of MLQA.

SQuAD: Rajpurkar et al. 2016, section 6.1. MLQA: Lewis et al. 2020, section 5 and the published
evaluation script, which has rules of its own for each language. It is followed even where it
surprises: Arabic loses its article in the middle of words too, and where nothing is left of an
answer and its reference they match exactly but have an F1 of 0.
"""

import re
import string
import unicodedata
from collections import Counter
from functools import cache
from typing import Any

from lexigraft.evaluation.unspaced_scripts import LANGUAGES, LETTER

_SQUAD_ARTICLES = {"a", "an", "the"}
# Words that count as articles; the languages of MLQA that are not here have none.
_MLQA_ARTICLES = {
    "en": "a an the",
    "es": "un una unos unas el la los las",
    "vi": "của là cái chiếc những",
    "de": "ein eine einen einem eines einer der die das den dem des",
}
_ARABIC_ARTICLE = "ال"
# Letters that are words by themselves in Chinese: MLQA's own bounds.
_CHINESE = re.compile(r"[\u4e00-\u9fa5]")


def squad_exact_match(answer: str, references: list[str]) -> float:
    """100 if the answer equals one of the references, normalized; else 0."""
    words = squad_words(answer)
    return 100.0 * any(words == squad_words(reference) for reference in references)


def squad_f1(answer: str, references: list[str]) -> float:
    """The highest F1 of the answer's words with those of a reference, 0 to 100; order is free."""

    def f1(words: list[str], reference: list[str]) -> float:
        return _f1(words, reference) if words and reference else float(words == reference)

    words = squad_words(answer)
    return 100 * max(f1(words, squad_words(reference)) for reference in references)


def squad_words(text: str) -> list[str]:
    """Words in lower case without punctuation and English articles.

    SQuAD's script knows ASCII punctuation alone; here that of every script counts, as in MLQA's.
    """
    plain = _without_punctuation(text.lower())
    return [word for word in plain.split() if word not in _SQUAD_ARTICLES]


def mlqa_exact_match(answer: str, references: list[str], language: str) -> float:
    """100 if the answer equals one of the references, normalized; else 0.

    Parameters
    ----------
    language
        ISO 639 code of the answers, which in cross-lingual questions is the context's.
    """
    words = mlqa_words(answer, language)
    return 100.0 * any(words == mlqa_words(reference, language) for reference in references)


def mlqa_f1(answer: str, references: list[str], language: str) -> float:
    """The highest F1 of the answer's words with those of a reference, 0 to 100; order is free."""
    words = mlqa_words(answer, language)
    return 100 * max(_f1(words, mlqa_words(reference, language)) for reference in references)


def mlqa_words(text: str, language: str) -> list[str]:
    """Words in lower case, without punctuation of any script and without articles.

    Words stand between white space, or are single letters of a script without any: MLQA has
    Chinese, and the other such scripts are treated alike, a letter together with the marks on it.
    A language that MLQA does not have keeps all of its words.
    """
    plain = _without_punctuation(text.lower())
    if language == "ar":
        plain = plain.replace(_ARABIC_ARTICLE, " ")
    elif articles := _MLQA_ARTICLES.get(language):
        plain = re.sub(rf"\b({'|'.join(articles.split())})\b", " ", plain)
    if language in LANGUAGES:
        plain = _letters(language).sub(lambda found: f" {found[0]} ", plain)
    return plain.split()


def _f1(answer: list[str], reference: list[str]) -> float:
    """F1 of the words that two texts have in common, 0 to 1; 0 where they have none."""
    common = (Counter(answer) & Counter(reference)).total()
    return 2 * common / (len(answer) + len(reference)) if common else 0.0


def _without_punctuation(text: str) -> str:
    """A text without ASCII's punctuation and symbols and the punctuation of every script."""
    return "".join(character for character in text if not _is_punctuation(character))


def _is_punctuation(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character).startswith("P")


@cache
def _letters(language: str) -> Any:
    """The pattern of a letter that is a word by itself."""
    import regex

    return _CHINESE if language == "zh" else regex.compile(LETTER)
