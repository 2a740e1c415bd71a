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

import regex

from lexigraft.evaluation.text_metrics import UNSPACED_LANGUAGES, UNSPACED_LETTER

_SQUAD_ARTICLES = {"a", "an", "the"}
# Words that count as articles; the languages of MLQA that are not here have none.
_MLQA_ARTICLES = {
    "en": "a an the",
    "es": "un una unos unas el la los las",
    "vi": "của là cái chiếc những",
    "de": "ein eine einen einem eines einer der die das den dem des",
}
_ARABIC_ARTICLE = "ال"
# Letters that are words by themselves; in Chinese within MLQA's own bounds.
_LETTERS = dict.fromkeys(UNSPACED_LANGUAGES, regex.compile(UNSPACED_LETTER))
_LETTERS["zh"] = regex.compile(r"[\u4e00-\u9fa5]")


def squad_scores(answer: str, references: list[str]) -> dict[str, float]:
    """`f1` and `exact_match` of an answer with the best of its references, 0 to 100.

    F1 is that of words in any order. SQuAD's script knows ASCII punctuation alone; here that of
    every script is dropped, as in MLQA's.
    """
    words, *others = (
        [word for word in _without_punctuation(text).split() if word not in _SQUAD_ARTICLES]
        for text in (answer, *references)
    )
    f1 = (_f1(words, other) if words and other else float(words == other) for other in others)
    return {"f1": 100 * max(f1), "exact_match": 100.0 * (words in others)}


def mlqa_scores(answer: str, references: list[str], language: str) -> dict[str, float]:
    """`f1` and `exact_match` as in `squad_scores`, by MLQA's rules.

    `language` is the ISO 639 code of the answers, in cross-lingual questions the context's.
    """
    words, *others = (mlqa_words(text, language) for text in (answer, *references))
    f1 = (_f1(words, other) for other in others)
    return {"f1": 100 * max(f1), "exact_match": 100.0 * (words in others)}


def mlqa_words(text: str, language: str) -> list[str]:
    """Words in lower case, without punctuation of any script and without articles.

    Words stand between white space, or are single letters of a script without any: MLQA has
    Chinese, and the other such scripts are treated alike, a letter together with the marks on it.
    A language that MLQA does not have keeps all of its words.
    """
    plain = _without_punctuation(text)
    if language == "ar":
        plain = plain.replace(_ARABIC_ARTICLE, " ")
    elif articles := _MLQA_ARTICLES.get(language):
        plain = re.sub(rf"\b({'|'.join(articles.split())})\b", " ", plain)
    if letters := _LETTERS.get(language):
        plain = letters.sub(lambda found: f" {found[0]} ", plain)
    return plain.split()


def _f1(answer: list[str], reference: list[str]) -> float:
    """F1 of the words that two texts have in common, 0 to 1; 0 where they have none."""
    common = (Counter(answer) & Counter(reference)).total()
    return 2 * common / (len(answer) + len(reference)) if common else 0.0


def _without_punctuation(text: str) -> str:
    """A text in lower case without ASCII's punctuation and symbols and all other punctuation."""
    return "".join(
        character
        for character in text.lower()
        if character not in string.punctuation
        and not unicodedata.category(character).startswith("P")
    )
