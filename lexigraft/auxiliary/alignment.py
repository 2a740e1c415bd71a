"""Alignment of two spaces of word vectors by a bilingual dictionary."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.auxiliary.word_vector_files import WordVectorFile, open_word_vectors
from lexigraft.errors import UserError


def align_vectors(
    vectors: TokenVectors,
    of: str | Path | WordVectorFile,
    onto: str | Path | WordVectorFile,
    pairs: Iterable[tuple[str, str]],
) -> tuple[TokenVectors, int]:
    """Rotate vectors of one language so that translations become similar [1]_.

    Parameters
    ----------
    vectors
        Vectors in the space of `of`.
    of
        Word vectors of the language to rotate: a file, see `read_word_vectors`.
    onto
        Word vectors of English.
    pairs
        English words and their translations. Each word is looked up as it is, in lower case and
        capitalized; pairs of which a file lists no form are ignored.

    Returns
    -------
    vectors : TokenVectors
        The same tokens, in the space of `onto`. Lengths and angles do not change.
    pairs_used : int
        Number of pairs from which the rotation is computed.

    Raises
    ------
    UserError
        The files have vectors of different widths, or list no pair.

    References
    ----------
    .. [1] Minixhofer, Paischer and Rekabsaz 2022 (WECHSEL), section 3.

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
    of, onto = open_word_vectors(of), open_word_vectors(onto)
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
    rotation = procrustes_rotation(
        np.stack([row for row, _ in both]), np.stack([row for _, row in both])
    )
    rotated = (vectors.vectors @ rotation).astype(np.float32)
    return TokenVectors(vectors.tokens, rotated), len(both)


def procrustes_rotation(rows: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """Solve the orthogonal Procrustes problem [1]_.

    Parameters
    ----------
    rows, onto
        [n, d]: row i of `rows` is mapped to row i of `onto`.

    Returns
    -------
    ndarray
        float64 [d, d], orthogonal: `rows @ matrix` is closest to `onto` in least squares. It may
        contain a reflection, and is not unique for fewer than d independent rows.

    References
    ----------
    .. [1] Schönemann 1966, "A Generalized Solution of the Orthogonal Procrustes Problem".

    Examples
    --------
    >>> procrustes_rotation(np.eye(2), np.array([[0.0, 1.0], [-1.0, 0.0]])).round().tolist()
    [[0.0, 1.0], [-1.0, 0.0]]
    """
    left, _, right = np.linalg.svd(rows.astype(np.float64).T @ onto.astype(np.float64))
    return left @ right


def _forms(word: str) -> Sequence[str]:
    return list(dict.fromkeys((word, word.lower(), word.title())))
