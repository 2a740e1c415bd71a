"""Exact match and F1 of short answers, by the rules of SQuAD or of MLQA.

SQuAD: Rajpurkar et al. 2016, section 6.1. MLQA: Lewis et al. 2020, section 5 and the published
evaluation script, which is followed even where it is surprising: it removes the Arabic article also
inside words, and if nothing is left of an answer and its reference, they match but have an F1 of 0.
"""

import re
import string
import unicodedata
from collections import Counter

import regex

from lexigraft.evaluation.metric_kinds import MetricKind
from lexigraft.evaluation.unspaced_scripts import UNSPACED_LANGUAGES, UNSPACED_LETTER

F1, EXACT_MATCH = MetricKind("f1", "F1"), MetricKind("exact_match", "exact match")

_SQUAD_ARTICLES = {"a", "an", "the"}
# Words that count as articles; the other languages of MLQA have none.
_MLQA_ARTICLES = {
    "en": "a an the",
    "es": "un una unos unas el la los las",
    "vi": "của là cái chiếc những",
    "de": "ein eine einen einem eines einer der die das den dem des",
}
_ARABIC_ARTICLE = "ال"
# Letters that count as words; for Chinese, the range that MLQA uses.
_LETTERS = dict.fromkeys(UNSPACED_LANGUAGES, regex.compile(UNSPACED_LETTER))
_LETTERS["zh"] = regex.compile(r"[\u4e00-\u9fa5]")


def squad_scores(answer: str, references: list[str]) -> dict[str, float]:
    """`f1` and `exact_match` of an answer with the best of its references, 0 to 100.

    F1 compares words in any order. SQuAD's script removes only ASCII punctuation; here, the
    punctuation of all scripts is removed, as in MLQA's.
    """
    words, *expected = (
        [word for word in _without_punctuation(text).split() if word not in _SQUAD_ARTICLES]
        for text in (answer, *references)
    )
    f1 = (
        _f1(words, reference) if words and reference else float(words == reference)
        for reference in expected
    )
    return {"f1": 100 * max(f1), "exact_match": 100.0 * (words in expected)}


def mlqa_scores(answer: str, references: list[str], language: str) -> dict[str, float]:
    """`f1` and `exact_match` as in `squad_scores`, by MLQA's rules.

    `language` is the ISO 639 code of the answers; for cross-lingual questions, of the context.
    """
    words, *expected = (mlqa_words(text, language) for text in (answer, *references))
    f1 = (_f1(words, reference) for reference in expected)
    return {"f1": 100 * max(f1), "exact_match": 100.0 * (words in expected)}


def mlqa_words(text: str, language: str) -> list[str]:
    """Words in lower case, without punctuation of any script and without articles.

    Words are separated by white space. In scripts without spaces, they are single letters: MLQA has
    Chinese; other such scripts are treated in the same way, a letter together with its marks. In
    languages that MLQA does not have, no articles are removed.
    """
    plain = _without_punctuation(text)
    if language == "ar":
        plain = plain.replace(_ARABIC_ARTICLE, " ")
    elif articles := _MLQA_ARTICLES.get(language):
        plain = re.sub(rf"\b({'|'.join(articles.split())})\b", " ", plain)
    if letters := _LETTERS.get(language):
        plain = letters.sub(lambda letter: f" {letter[0]} ", plain)
    return plain.split()


def _f1(answer: list[str], reference: list[str]) -> float:
    """F1 of the words that two texts have in common, 0 to 1; 0 if there are none."""
    common = (Counter(answer) & Counter(reference)).total()
    return 2 * common / (len(answer) + len(reference)) if common else 0.0


def _without_punctuation(text: str) -> str:
    """A text in lower case, without ASCII punctuation and symbols and all other punctuation."""
    return "".join(
        character
        for character in text.lower()
        if character not in string.punctuation
        and not unicodedata.category(character).startswith("P")
    )
