"""fastText vectors of a corpus tokenized with the target tokenizer, for FOCUS.

Training uses one thread and initial values drawn here: fastText is not reproducible with several
threads, and with one it leaves most initial values unset (0.9.2: zero; 0.9.3: undefined memory).
"""

import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerFast

from lexigraft.auxiliary.language_files import END_OF_LINE, check_fasttext
from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.source.encoding import check_corpus, encoded_batches
from lexigraft.vocabulary.token_bytes import special_ids, vocabulary_size

# fastText splits texts at ASCII white space and NUL, which tokens may contain: Unicode's control
# pictures replace these characters.
_BREAKING = {ord(letter): chr(0x2400 + ord(letter)) for letter in " \n\r\t\v\f\0"}
# Thai and Japanese letters, without spaces between words.
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff]")


def train_fasttext(
    tokenizer: PreTrainedTokenizerFast,
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
    """Train fastText vectors [1]_ of the tokens of a tokenizer, as FOCUS does.

    Special tokens, and tokens that occur less than `minimum_count` times, get no vector. The corpus
    is read once; the same corpus, options and seed give identical bits. A UserError is raised if no
    token occurs often enough.

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
    character_ngrams, buckets
        Minimum and maximum length of the character n-grams whose vectors are added to the token's,
        such as `(3, 6)`, or None; and their hash buckets of `4 · dimensions` bytes.
    minimum_words
        Sentences with fewer words (in Thai and Japanese: characters) are left out.
    seed
        Seed of the initial values. fastText's own generator has the fixed seed 0.

    References
    ----------
    .. [1] Bojanowski, Grave, Joulin and Mikolov 2017, "Enriching Word Vectors with Subword
       Information".

    Examples
    --------
    >>> import lexigraft
    >>> from lexigraft.auxiliary import train_fasttext
    >>> swahili = ["mto na mvua", "mto na maji"] * 5
    >>> tokenizer = lexigraft.train_tokenizer(swahili, "byte-level-bpe", size=264)
    >>> trained = train_fasttext(tokenizer, swahili, dimensions=4, minimum_count=10)
    >>> tokenizer.convert_ids_to_tokens(trained.tokens), trained.vectors.shape
    (['Ġm', 'Ġna', 'mto'], (3, 4))
    """
    check_fasttext("train_fasttext")
    words_by_id = spelled_words(tokenizer) if character_ngrams else numbered_words(tokenizer)
    shortest, longest = character_ngrams or (0, 0)
    with tempfile.TemporaryDirectory(prefix="lexigraft-fasttext-") as folder:
        text, initial_vectors = Path(folder) / "sentences.txt", Path(folder) / "start.vec"
        counts, sentences = write_sentences(tokenizer, corpus, words_by_id, text, minimum_words)
        token_ids = np.flatnonzero(counts >= minimum_count)
        if not len(token_ids):
            raise UserError(
                f"minimum_count: no token occurs {minimum_count} times in {sentences} sentences; "
                "give more text or a smaller minimum_count"
            )
        token_words = [words_by_id[i] for i in token_ids]
        # A word outside fastText's vocabulary would be added to it through this file.
        end_words = [END_OF_LINE] if sentences >= minimum_count else []
        # Draw initial values as fastText does.
        rng, limit = np.random.default_rng(seed), 1 / dimensions
        with initial_vectors.open("w", encoding="utf-8", newline="\n") as file:
            file.write(f"{len(token_words) + len(end_words)} {dimensions}\n")
            for word in (*token_words, *end_words):
                values = rng.uniform(-limit, limit, dimensions).tolist()
                file.write(f"{word} {' '.join([f'{value:.8f}' for value in values])}\n")

        import fasttext  # missing on Python 3.13, for which it has no wheel

        fasttext_model = fasttext.train_unsupervised(
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
            pretrainedVectors=str(initial_vectors),
            thread=1,
            verbose=0,
        )
    if set(fasttext_model.get_words()) != {*token_words, *end_words}:
        raise RuntimeError("fastText's words differ from those of the text written for it")
    vectors = np.stack([fasttext_model.get_word_vector(word) for word in token_words])
    return TokenVectors(token_ids.astype(np.int64), np.ascontiguousarray(vectors, dtype=np.float32))


def numbered_words(tokenizer: PreTrainedTokenizerFast) -> list[str]:
    """A word for each token, by id: `t` followed by the id, or `""` for special tokens."""
    special = special_ids(tokenizer)
    return [f"t{i}" if i not in special else "" for i in range(vocabulary_size(tokenizer))]


def spelled_words(tokenizer: PreTrainedTokenizerFast) -> list[str]:
    """A word for each token, by id: its vocabulary string, or `""` for special tokens.

    White space is written as control pictures, repeated if a token already has that spelling.
    """
    vocabulary, special = tokenizer.get_vocab(), special_ids(tokenizer)
    words = [""] * vocabulary_size(tokenizer)
    used_words = {*vocabulary, END_OF_LINE}
    for token, token_id in sorted(vocabulary.items(), key=lambda entry: entry[1]):
        word = token.translate(_BREAKING)
        if word != token or word == END_OF_LINE:
            while word in used_words:
                word += word[-1]
            used_words.add(word)
        if token_id not in special:
            words[token_id] = word
    return words


def write_sentences(
    tokenizer: PreTrainedTokenizerFast,
    corpus: Iterable[str],
    words_by_id: Sequence[str],
    file: str | Path,
    minimum_words: int = 0,
) -> tuple[np.ndarray, int]:
    """Tokenize a corpus into a text file with one line per sentence, in bounded memory.

    Tokens whose word is `""` and sentences of fewer than `minimum_words` words are left out.
    Returns how often each token occurs in the file, int64 [len(words_by_id)], and the number of
    sentences.
    """
    check_corpus(corpus)
    counts, sentences = np.zeros(len(words_by_id), dtype=np.int64), 0
    long_enough = (
        text
        for text in corpus
        if (len(text) if _UNSPACED.search(text) else len(text.split())) >= minimum_words
    )
    with Path(file).open("w", encoding="utf-8", newline="\n") as text_file:
        for batch in encoded_batches(tokenizer, long_enough):
            for ids in batch:
                if sentence := " ".join([words_by_id[i] for i in ids if words_by_id[i]]):
                    text_file.write(sentence + "\n")
                    sentences += 1
            counts += np.bincount([i for ids in batch for i in ids], minlength=len(words_by_id))
    counts[[not word for word in words_by_id]] = 0
    return counts, sentences
