"""Pretrained word vectors as vectors of tokens, for FOCUS, WECHSEL, OFA and SALT."""

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.auxiliary.word_vector_files import WordBatch, WordVectorFile, open_word_vectors
from lexigraft.errors import UserError
from lexigraft.vocabulary.token_bytes import special_ids, token_bytes

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_POOLINGS = ("frequency", "uniform")


def read_word_vectors(
    tokenizer: "PreTrainedTokenizerFast",
    words: str | Path | WordVectorFile,
    *,
    unlisted_words: bool = False,
    pooling: str | None = None,
    notation: str = "plain",
) -> TokenVectors:
    """Give each token the vector of the word that it spells, or a mean over words that contain it.

    Parameters
    ----------
    tokenizer
        A fast tokenizer.
    words
        A fastText model (`.bin`), which is loaded as a whole, or a file in the text format of
        word2vec (`.vec`, `.vec.gz`), which is read a line at a time.
    unlisted_words
        Also give a vector to words that the file does not list, composed of their character
        n-grams, as the published code of FOCUS does; needs a `.bin` file.
    pooling
        None: the vector of the word that the token spells, without the space around it [1]_.
        `"uniform"`: the mean over all words of the file that contain the token [2]_.
        `"frequency"`: the same, weighted by the frequency of each word [3]_; needs a `.bin` file.
    notation
        Notation of the words that are pooled: `"plain"`, or `"colexnet"` for `deu:$haus$`.

    Returns
    -------
    TokenVectors
        Without special tokens, and without tokens for which the file has no word.

    Raises
    ------
    UserError
        The file is missing, truncated, or of another format, or lists none of the words; or the
        options exclude each other.

    References
    ----------
    .. [1] Yamaguchi, Villavicencio and Aletras, "How Can We Effectively Expand the Vocabulary of
       LLMs with 0.01GB of Target Language Text?", Table 9.
    .. [2] Liu, Lin, Wang and Schütze 2024 (OFA), section 3.
    .. [3] Minixhofer, Paischer and Rekabsaz 2022 (WECHSEL), section 3.

    Examples
    --------
    >>> vectors = read_word_vectors(tokenizer, "cc.te.300.bin")  # doctest: +SKIP
    >>> vectors.vectors.shape  # doctest: +SKIP
    (5120, 300)
    """
    _check_options(unlisted_words, pooling, notation)
    file = open_word_vectors(words)
    if pooling is None:
        found = _spelled(tokenizer, file, unlisted_words)
    else:
        found = pool_words(tokenizer, file.batches(), pooling == "frequency", notation)
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
        raise UserError("notation: it applies only to pooled words; set pooling")


def _spelled(
    tokenizer: "PreTrainedTokenizerFast", file: WordVectorFile, unlisted: bool
) -> TokenVectors:
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


def pool_words(
    tokenizer: "PreTrainedTokenizerFast",
    batches: Iterable[WordBatch],
    by_frequency: bool,
    notation: str = "plain",
) -> TokenVectors:
    """Give each token the mean vector of the words that contain it.

    Parameters
    ----------
    tokenizer
        A fast tokenizer.
    batches
        Words and their vectors.
    by_frequency
        Whether words are weighted by their frequency; otherwise uniformly.
    notation
        Notation of the words, one of `NOTATIONS`. Each word is tokenized in several spellings, with
        and without a space before it, and counts once for each that contains the token.

    Returns
    -------
    TokenVectors
        Tokens that occur in a word, without special tokens and zero vectors.

    Raises
    ------
    UserError
        `by_frequency` is set, but the file contains no frequencies.
    """
    spellings = NOTATIONS[notation]
    size = max(tokenizer.get_vocab().values()) + 1
    sums, totals = np.zeros((size, 0)), np.zeros(size)
    for batch in batches:
        weights = batch.counts if by_frequency else np.ones(len(batch.words))
        if weights is None:
            raise UserError(
                "pooling: 'frequency' needs a .bin file; this one contains no "
                "frequencies, so use 'uniform'"
            )
        words, tokens = _occurrences(tokenizer, [spellings(word) for word in batch.words])
        shares = csr_array((weights[words], (tokens, words)), shape=(size, len(batch.words)))
        used = np.unique(tokens)
        if not sums.shape[1]:
            sums = np.zeros((size, batch.vectors.shape[1]))
        sums[used] += shares[used] @ batch.vectors.astype(np.float64)
        totals += np.bincount(tokens, weights[words], minlength=size)
    covered = (totals > 0) & sums.any(axis=1)
    covered[list(special_ids(tokenizer))] = False
    known = np.flatnonzero(covered)
    sums /= np.maximum(totals, 1)[:, None]  # in place, since this is large for a large vocabulary
    return TokenVectors(known.astype(np.int64), sums[known].astype(np.float32))


def _occurrences(
    tokenizer: "PreTrainedTokenizerFast", spellings: list[list[str]]
) -> tuple[np.ndarray, np.ndarray]:
    """Indices of words and the tokens that they contain, once for each spelling of a word."""
    words = np.repeat(np.arange(len(spellings)), [len(texts) for texts in spellings])
    encoded = tokenizer(
        [text for texts in spellings for text in texts],
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
    """Spellings of a word of ColexNet+ such as `deu:$haus$`: language code, `$` at word edges.

    Words without a code are English. One spelling is capitalized.
    """
    text = word[4:] if len(word) > 4 and word[3] == ":" else word
    begins = text.startswith("$")
    text = text.replace("$", " ")
    bare = text[1:] if begins else text
    return [text, f" {text}", ("" if begins else " ") + bare[:1].upper() + bare[1:]]


NOTATIONS: dict[str, Callable[[str], list[str]]] = {"plain": _plain, "colexnet": _colexnet}
