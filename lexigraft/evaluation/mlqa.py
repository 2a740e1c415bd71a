"""Exact match and F1 of short answers as MLQA's script has them: each language by rules of its own.

Lewis et al. 2020 ("MLQA", §5 and the published evaluation script). What the script does is kept
also where it surprises: Arabic loses its article in the middle of words too, and where nothing is
left of an answer and its reference they match exactly but have an F1 of 0.
"""

import re

import regex

from lexigraft.evaluation.answers import overlap, without_punctuation
from lexigraft.evaluation.unspaced import LANGUAGES, LETTER

# Words that count as articles; the languages of MLQA that are not here have none.
_ARTICLES = {
    "en": "a an the",
    "es": "un una unos unas el la los las",
    "vi": "của là cái chiếc những",
    "de": "ein eine einen einem eines einer der die das den dem des",
}
_ARABIC_ARTICLE = "ال"
# Letters that are words by themselves. MLQA has Chinese (these are its bounds); the other scripts
# that put no spaces between words are treated alike, a letter together with the marks on it.
_CHINESE = re.compile(r"[\u4e00-\u9fa5]")
_LETTERS = dict.fromkeys(LANGUAGES, regex.compile(LETTER)) | {"zh": _CHINESE}


def exact_match(answer: str, references: list[str], language: str) -> float:
    """100 if the answer equals one of the references, normalized; else 0.

    Parameters
    ----------
    language
        ISO 639 code of the answers, which in cross-lingual questions is the context's.
    """
    words = mlqa_words(answer, language)
    return 100.0 * any(words == mlqa_words(reference, language) for reference in references)


def f1(answer: str, references: list[str], language: str) -> float:
    """The highest F1 of the answer's words with those of a reference, 0 to 100; order is free."""
    words = mlqa_words(answer, language)
    return 100 * max(overlap(words, mlqa_words(reference, language)) for reference in references)


def mlqa_words(text: str, language: str) -> list[str]:
    """Words in lower case, without punctuation of any script and without articles.

    Words stand between white space, or are single letters of a script without any. A language that
    MLQA has not keeps all of its words.
    """
    plain = without_punctuation(text.lower())
    if language == "ar":
        plain = plain.replace(_ARABIC_ARTICLE, " ")
    elif articles := _ARTICLES.get(language):
        plain = re.sub(rf"\b({'|'.join(articles.split())})\b", " ", plain)
    if letters := _LETTERS.get(language):
        plain = letters.sub(lambda found: f" {found[0]} ", plain)
    return plain.split()
