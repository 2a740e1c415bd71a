"""Pretrained word vectors as vectors of tokens.

The word-level variant of paper 000, Table 9, and what WECHSEL and OFA read (papers 001 to 004).
"""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lexigraft.auxiliary.pooling import NOTATIONS, pooled
from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.auxiliary.word_files import WordFile, open_words
from lexigraft.errors import UserError
from lexigraft.vocabulary.token_bytes import special_ids, token_bytes

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_POOLINGS = ("frequency", "uniform")


def read_word_vectors(
    tokenizer: "PreTrainedTokenizerFast",
    words: str | Path | WordFile,
    *,
    unlisted_words: bool = False,
    pooling: str | None = None,
    notation: str = "plain",
) -> TokenVectors:
    """Give every token the vector of the word that it spells, or a mean over words that it is in.

    Parameters
    ----------
    tokenizer
        A fast tokenizer.
    words
        A fastText model (`.bin`), which is loaded as a whole, or word2vec's text format (`.vec`,
        `.vec.gz`), of which a line at a time is read.
    unlisted_words
        Also give a vector to words that the file does not list, made of their character n-grams,
        as published code does; needs a `.bin` file.
    pooling
        None: the vector of the word that the token spells, without the space around it.
        `"uniform"`: the mean over all words of the file in whose tokens it occurs. `"frequency"`:
        the same, weighted by how often each word occurs; needs a `.bin` file.
    notation
        How the file writes its words where they are pooled: `"plain"`, or `"colexnet"` for
        `deu:$haus$`.

    Returns
    -------
    TokenVectors
        Special tokens have no vector, nor have tokens of which the file says nothing.

    Raises
    ------
    UserError
        The file is missing, cut off, or of another format, or lists none of the words; or the
        options do not go together.

    Examples
    --------
    >>> vectors = read_word_vectors(tokenizer, "cc.te.300.bin")  # doctest: +SKIP
    >>> vectors.vectors.shape  # doctest: +SKIP
    (5120, 300)
    """
    _check_options(unlisted_words, pooling, notation)
    file = open_words(words)
    if pooling is None:
        found = _spelled(tokenizer, file, unlisted_words)
    else:
        found = pooled(tokenizer, file.batches(), pooling == "frequency", notation)
    if not len(found.tokens):
        raise UserError(
            f"{file.path}: lists none of the words that tokens spell; is it the language's?"
        )
    return found


def _check_options(unlisted_words: bool, pooling: str | None, notation: str) -> None:
    if pooling not in (None, *_POOLINGS):
        raise UserError(f"pooling: {pooling!r} is not one of {', '.join(_POOLINGS)}, or null")
    if notation not in NOTATIONS:
        raise UserError(f"notation: {notation!r} is not one of {', '.join(NOTATIONS)}")
    if pooling is not None and unlisted_words:
        raise UserError(
            "unlisted_words: pooling is over the words that a file lists; leave one out"
        )
    if pooling is None and notation != "plain":
        raise UserError("notation: it says how words are written that are pooled; set pooling")


def _spelled(tokenizer: "PreTrainedTokenizerFast", file: WordFile, unlisted: bool) -> TokenVectors:
    texts = _texts(tokenizer)
    found = file.vectors_of(set(texts.values()), unlisted)
    tokens = [number for number, text in texts.items() if text in found]
    rows = [found[texts[number]] for number in tokens]
    return TokenVectors(
        np.array(tokens, dtype=np.int64), np.stack(rows) if rows else np.zeros((0, 0), np.float32)
    )


def _texts(tokenizer: "PreTrainedTokenizerFast") -> dict[int, str]:
    """The word that each token spells, by id in ascending order; only tokens that spell one."""
    special = special_ids(tokenizer)
    texts = {}
    for number, piece in enumerate(token_bytes(tokenizer)):
        if number not in special:
            with contextlib.suppress(UnicodeDecodeError):
                if text := piece.decode("utf-8").strip():
                    texts[number] = text
    return texts
