"""fastText vectors of a corpus tokenized with the target tokenizer, for FOCUS.

Training uses one thread and initial values drawn here: fastText is not reproducible with several
threads, and with one it leaves most initial values unset (0.9.2: zero; 0.9.3: undefined memory).
"""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lexigraft.auxiliary.language_files import check_fasttext
from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.auxiliary.tokenized_text import (
    END_OF_LINE,
    numbered_words,
    spelled_words,
    write_sentences,
)
from lexigraft.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def train_fasttext(
    tokenizer: "PreTrainedTokenizerFast",
    corpus: Iterable[str],
    *,
    model: str = "cbow",
    dimensions: int = 300,
    window: int = 5,
    negatives: int = 10,
    epochs: int = 3,
    minimum_count: int = 10,
    learning_rate: float = 0.05,
    subsampling: float = 1e-4,
    character_ngrams: Sequence[int] | None = None,
    buckets: int = 2_000_000,
    minimum_words: int = 0,
    seed: int = 0,
) -> TokenVectors:
    """Train fastText vectors [1]_ of the tokens of a tokenizer [2]_.

    Special tokens, and tokens that occur less than `minimum_count` times, get no vector. The corpus
    is read once and tokenized into a temporary file. The same corpus, options and seed give
    identical bits. A UserError is raised if the corpus is one string, or no token occurs often
    enough.

    Parameters
    ----------
    model
        `cbow` or `skipgram`.
    window, negatives
        Maximum number of context tokens on either side, and negative samples per token.
    learning_rate
        Initial learning rate; it decreases to zero.
    subsampling
        Tokens with a larger share of the text than this are skipped at random.
    character_ngrams
        Minimum and maximum length of the character n-grams of a token's spelling whose vectors are
        added to the token's vector, e.g. `(3, 6)`; None for no n-grams.
    buckets
        Number of hash buckets of n-grams; each takes `4 · dimensions` bytes. Nine in ten start at
        zero.
    minimum_words
        Minimum number of words of a sentence, see `write_sentences`.
    seed
        Seed of the initial values. fastText's own generator has the fixed seed 0.

    References
    ----------
    .. [1] Bojanowski, Grave, Joulin and Mikolov 2017, "Enriching Word Vectors with Subword
       Information".
    .. [2] Yamaguchi, Villavicencio and Aletras, "How Can We Effectively Expand the Vocabulary of
       LLMs with 0.01GB of Target Language Text?", section 4.2.

    Examples
    --------
    >>> import lexigraft
    >>> from lexigraft.auxiliary import train_fasttext
    >>> swahili = ["mto na mvua", "mto na maji"] * 5
    >>> tokenizer = lexigraft.train_tokenizer(swahili, "byte-level-bpe", size=264)
    >>> found = train_fasttext(tokenizer, swahili, dimensions=4, minimum_count=10)
    >>> tokenizer.convert_ids_to_tokens(found.tokens), found.vectors.shape
    (['Ġm', 'Ġna', 'mto'], (3, 4))
    """
    check_fasttext("train_fasttext")
    words = spelled_words(tokenizer) if character_ngrams else numbered_words(tokenizer)
    shortest, longest = character_ngrams or (0, 0)
    with tempfile.TemporaryDirectory(prefix="lexigraft-fasttext-") as folder:
        text, start = Path(folder) / "sentences.txt", Path(folder) / "start.vec"
        counts, lines = write_sentences(tokenizer, corpus, words, text, minimum_words)
        tokens = np.flatnonzero(counts >= minimum_count)
        if not len(tokens):
            raise UserError(
                f"minimum_count: no token occurs {minimum_count} times in {lines} sentences; give "
                "more text or a smaller minimum_count"
            )
        known = [words[i] for i in tokens]
        # A word outside fastText's vocabulary would be added to it through this file.
        ends = [END_OF_LINE] if lines >= minimum_count else []
        # Draw initial values as fastText does.
        rng, bound = np.random.default_rng(seed), 1 / dimensions
        with start.open("w", encoding="utf-8", newline="\n") as out:
            out.write(f"{len(known) + len(ends)} {dimensions}\n")
            for word in (*known, *ends):
                values = rng.uniform(-bound, bound, dimensions).tolist()
                out.write(f"{word} {' '.join([f'{value:.8f}' for value in values])}\n")

        import fasttext

        trained = fasttext.train_unsupervised(
            str(text),
            model=model,
            dim=dimensions,
            ws=window,
            neg=negatives,
            epoch=epochs,
            minCount=minimum_count,
            lr=learning_rate,
            t=subsampling,
            minn=shortest,
            maxn=longest,
            bucket=buckets if character_ngrams else 0,
            label="\n",  # no word begins with it, so no word is a label
            pretrainedVectors=str(start),
            thread=1,
            verbose=0,
        )
    if set(trained.get_words()) != {*known, *ends}:
        raise RuntimeError("fastText's words differ from those of the text written for it")
    vectors = np.stack([trained.get_word_vector(word) for word in known])
    return TokenVectors(tokens.astype(np.int64), np.ascontiguousarray(vectors, dtype=np.float32))
