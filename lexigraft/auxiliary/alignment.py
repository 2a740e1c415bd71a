"""Two spaces of word vectors made one: a rotation found by a bilingual dictionary.

WECHSEL (Minixhofer et al. 2022, section 3); Schönemann 1966.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.auxiliary.word_files import WordFile, open_words
from lexigraft.errors import UserError


def align_vectors(
    vectors: TokenVectors,
    of: str | Path | WordFile,
    onto: str | Path | WordFile,
    pairs: Iterable[tuple[str, str]],
) -> tuple[TokenVectors, int]:
    """Rotate vectors of one language so that translations come to lie beside each other.

    Parameters
    ----------
    vectors
        Vectors in the space of `of`.
    of
        Word vectors of the language that is rotated: a file, as in `read_word_vectors`.
    onto
        Word vectors of English.
    pairs
        English words and their translations. Each is tried as it is, in lower case and with a
        capital, on both sides; those of which a file lists no form do not count.

    Returns
    -------
    vectors : TokenVectors
        The same tokens, in the space of `onto`. Lengths and angles are what they were.
    pairs_used : int
        Pairs of words that the rotation rests on.

    Raises
    ------
    UserError
        The files have vectors of different widths, or list no pair.

    Examples
    --------
    >>> pairs = read_dictionary("telugu.txt")  # doctest: +SKIP
    >>> vectors, used = align_vectors(vectors, "te.bin", "en.bin", pairs)  # doctest: +SKIP
    """
    forms = list(
        dict.fromkeys(
            (english, translation)
            for pair in pairs
            for english in _forms(pair[0])
            for translation in _forms(pair[1])
        )
    )
    of, onto = open_words(of), open_words(onto)
    here = of.vectors_of({translation for _, translation in forms})
    there = onto.vectors_of({english for english, _ in forms})
    both = [
        (here[translation], there[english])
        for english, translation in forms
        if translation in here and english in there
    ]
    if not both:
        raise UserError(
            f"dictionary: {of.path} and {onto.path} list no pair of it; is it a dictionary from "
            "English into the language?"
        )
    if len(both[0][0]) != len(both[0][1]):
        raise UserError(
            f"{of.path} has {len(both[0][0])} dimensions and {onto.path} {len(both[0][1])}; give "
            "word vectors of one width"
        )
    turn = rotation(np.stack([row for row, _ in both]), np.stack([row for _, row in both]))
    turned = (vectors.vectors @ turn).astype(np.float32)
    return TokenVectors(vectors.tokens, turned), len(both)


def rotation(rows: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """The orthogonal matrix that brings rows closest to others, in squares: Procrustes.

    Parameters
    ----------
    rows, onto
        [n, d]: row i is to come to lie on row i.

    Returns
    -------
    ndarray
        float64 [d, d], for which `rows @ it` is closest to `onto`. It may hold a reflection. Where
        fewer than d rows are given, directions that none of them has are turned somehow.
    """
    left, _, right = np.linalg.svd(rows.astype(np.float64).T @ onto.astype(np.float64))
    return left @ right


def _forms(word: str) -> Sequence[str]:
    return list(dict.fromkeys((word, word.lower(), word.title())))
