"""Vectors of words as vectors of the tokens that they are made of.

WECHSEL (Minixhofer et al. 2022, section 3) weighs a word by its frequency, OFA (Liu et al. 2024)
weighs all words alike.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.auxiliary.word_files import WordBatch
from lexigraft.errors import UserError
from lexigraft.vocabulary.token_bytes import special_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def pooled(
    tokenizer: "PreTrainedTokenizerFast",
    batches: Iterable[WordBatch],
    by_frequency: bool,
    notation: str = "plain",
) -> TokenVectors:
    """Give every token the mean of the words in whose tokens it occurs.

    Parameters
    ----------
    tokenizer
        A fast tokenizer.
    batches
        Words and their vectors.
    by_frequency
        Whether a word weighs as often as it occurs in the text behind its vector; else all weigh
        alike.
    notation
        How words are written, one of `NOTATIONS`. Each is tokenized in several ways, with and
        without a space before it, and weighs once for each in which the token occurs.

    Returns
    -------
    TokenVectors
        Tokens that occur in a word, special ones left out; none has a vector of zeros.

    Raises
    ------
    UserError
        Words are to weigh by frequencies that the file does not hold.
    """
    ways = NOTATIONS[notation]
    size = max(tokenizer.get_vocab().values()) + 1
    sums, totals = np.zeros((size, 0)), np.zeros(size)
    for batch in batches:
        weights = batch.counts if by_frequency else np.ones(len(batch.words))
        if weights is None:
            raise UserError(
                "pooling: 'frequency' needs a .bin file; this one does not say how often words "
                "occur, so take 'uniform'"
            )
        words, tokens = _occurrences(tokenizer, [ways(word) for word in batch.words])
        shares = csr_array((weights[words], (tokens, words)), shape=(size, len(batch.words)))
        used = np.unique(tokens)
        if not sums.shape[1]:
            sums = np.zeros((size, batch.vectors.shape[1]))
        sums[used] += shares[used] @ batch.vectors.astype(np.float64)
        totals += np.bincount(tokens, weights[words], minlength=size)
    held = (totals > 0) & sums.any(axis=1)
    held[list(special_ids(tokenizer))] = False
    known = np.flatnonzero(held)
    sums /= np.maximum(totals, 1)[:, None]  # in place, for with a large vocabulary this is large
    return TokenVectors(known.astype(np.int64), sums[known].astype(np.float32))


def _occurrences(
    tokenizer: "PreTrainedTokenizerFast", ways: list[list[str]]
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of words, and the tokens that occur in them, once for each way of writing a word."""
    words = np.repeat(np.arange(len(ways)), [len(texts) for texts in ways])
    encoded = tokenizer(
        [text for texts in ways for text in texts],
        add_special_tokens=False,
        return_attention_mask=False,
        verbose=False,
    )["input_ids"]
    distinct = [sorted(set(ids)) for ids in encoded]
    tokens = np.array([i for ids in distinct for i in ids], dtype=np.int64)
    return np.repeat(words, [len(ids) for ids in distinct]), tokens


def _plain(word: str) -> list[str]:
    return [word, f" {word}"]


def _colexnet(word: str) -> list[str]:
    """ColexNet+ writes `deu:$haus$`: a code of the language, and `$` at the edge of a word.

    Words without a code are English. Also written with a capital.
    """
    text = word[4:] if len(word) > 4 and word[3] == ":" else word
    begins = text.startswith("$")
    text = text.replace("$", " ")
    bare = text[1:] if begins else text
    return [text, f" {text}", ("" if begins else " ") + bare[:1].upper() + bare[1:]]


NOTATIONS: dict[str, Callable[[str], list[str]]] = {"plain": _plain, "colexnet": _colexnet}
