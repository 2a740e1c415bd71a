"""Pretrained word vectors as vectors of tokens, and their alignment: FOCUS, WECHSEL, OFA, SALT."""

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from transformers import PreTrainedTokenizerFast

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.auxiliary.word_vector_files import WordVectorFile, open_word_vectors
from lexigraft.errors import UserError, unknown
from lexigraft.source.encoding import encoder
from lexigraft.vocabulary.token_bytes import special_ids, token_bytes, vocabulary_size

_POOLINGS = ("frequency", "uniform")


def read_word_vectors(
    tokenizer: PreTrainedTokenizerFast,
    file: str | Path | WordVectorFile,
    *,
    unlisted_words: bool = False,
    pooling: str | None = None,
    notation: str = "plain",
) -> TokenVectors:
    """Give each token the vector of the word that it spells, or a mean over words that contain it.

    The words are those of a fastText model (`.bin`), or of a file in the text format of word2vec
    (`.vec`, `.vec.gz`). Special tokens, and tokens without a word, get no vector. A UserError is
    raised if the file is missing, truncated, of another format, or lists none of the words.

    Parameters
    ----------
    unlisted_words
        Also give a vector to words that the file does not list, composed of their character
        n-grams, as the published code of FOCUS does; needs a `.bin` file.
    pooling
        None: the vector of the word that the token spells, without the space around it [1]_.
        `"uniform"`: the mean over all words of the file that contain the token [2]_. `"frequency"`:
        the same, weighted by the frequency of each word [3]_; needs a `.bin` file.
    notation
        Notation of the words that are pooled: `"plain"`, or `"colexnet"` for `deu:$haus$`.

    References
    ----------
    .. [1] Yamaguchi, Villavicencio and Aletras, "How Can We Effectively Expand the Vocabulary of
       LLMs with 0.01GB of Target Language Text?", Table 9.
    .. [2] Liu, Lin, Wang and Schütze 2024 (OFA), section 3.
    .. [3] Minixhofer, Paischer and Rekabsaz 2022 (WECHSEL), section 3.

    Examples
    --------
    >>> import lexigraft
    >>> from lexigraft.auxiliary import read_word_vectors
    >>> _ = Path("sw.vec").write_text("2 2\\nmto 1 0\\nna 0 1\\n")
    >>> swahili = ["mto na mvua", "mto na maji"] * 5
    >>> tokenizer = lexigraft.train_tokenizer(swahili, "byte-level-bpe", size=264)
    >>> vectors = read_word_vectors(tokenizer, "sw.vec")
    >>> dict(zip(tokenizer.convert_ids_to_tokens(vectors.tokens), vectors.vectors.tolist()))
    {'na': [0.0, 1.0], 'Ġna': [0.0, 1.0], 'mto': [1.0, 0.0]}
    """
    if pooling not in (None, *_POOLINGS):
        raise unknown("pooling", pooling, _POOLINGS)
    if notation not in NOTATIONS:
        raise unknown("notation", notation, NOTATIONS)
    if pooling is not None and unlisted_words:
        raise UserError("unlisted_words: pooling uses only listed words; remove one of the two")
    if pooling is None and notation != "plain":
        raise UserError("notation: it applies only to pooled words; set pooling")
    file = open_word_vectors(file)
    if pooling is None:
        vectors = _spelled(tokenizer, file, unlisted_words)
    else:
        vectors = _pooled(tokenizer, file, pooling == "frequency", notation)
    if not len(vectors.tokens):
        raise UserError(
            f"{file.path}: lists none of the words that the tokens spell; check its language"
        )
    return vectors


def align_vectors(
    vectors: TokenVectors,
    file: str | Path | WordVectorFile,
    english_file: str | Path | WordVectorFile,
    pairs: Iterable[tuple[str, str]],
    repeated: bool = False,
) -> tuple[TokenVectors, int]:
    """Rotate vectors of one language so that translations become similar (WECHSEL, section 3).

    `vectors` were read from `file`, `english_file` has those of English, and `pairs` are English
    words and translations. Each word is looked up unchanged, in lower case and capitalized. A pair
    of forms counts once or, if `repeated`, as often as it arises, as in the published code. Returns
    the same tokens in the space of the English vectors, and the number of pairs in use. A UserError
    is raised if the files have vectors of different widths, or list none of the pairs.

    Examples
    --------
    >>> import lexigraft
    >>> from lexigraft.auxiliary import align_vectors, read_word_vectors
    >>> _ = Path("sw.vec").write_text("2 2\\nmto 1 0\\nna 0 1\\n")
    >>> _ = Path("en.vec").write_text("2 2\\nriver 0 1\\nand -1 0\\n")
    >>> swahili = ["mto na mvua", "mto na maji"] * 5
    >>> tokenizer = lexigraft.train_tokenizer(swahili, "byte-level-bpe", size=264)
    >>> vectors = read_word_vectors(tokenizer, "sw.vec")
    >>> pairs = [("river", "mto"), ("and", "na")]
    >>> aligned, used = align_vectors(vectors, "sw.vec", "en.vec", pairs)
    >>> vectors.vectors[-1].tolist(), (aligned.vectors[-1].round(6) + 0).tolist()  # of "mto"
    ([1.0, 0.0], [0.0, 1.0])
    """
    word_pairs = [
        (english, translation)
        for pair in pairs
        for english in _forms(pair[0])
        for translation in _forms(pair[1])
    ]
    if not repeated:
        word_pairs = list(dict.fromkeys(word_pairs))
    file, english_file = open_word_vectors(file), open_word_vectors(english_file)
    vectors_of_word = file.vectors_of({translation for _, translation in word_pairs})
    vectors_of_english = english_file.vectors_of({english for english, _ in word_pairs})
    vector_pairs = [
        (vectors_of_word[translation], vectors_of_english[english])
        for english, translation in word_pairs
        if translation in vectors_of_word and english in vectors_of_english
    ]
    if not vector_pairs:
        raise UserError(
            f"dictionary: {file.path} and {english_file.path} contain vectors for none of its "
            "pairs; check that it translates from English into this language"
        )
    if len(vector_pairs[0][0]) != len(vector_pairs[0][1]):
        raise UserError(
            f"{file.path} has {len(vector_pairs[0][0])} dimensions but {english_file.path} has "
            f"{len(vector_pairs[0][1])}; give word vectors of the same width"
        )
    rotation = procrustes_rotation(*map(np.stack, zip(*vector_pairs, strict=True)))
    rotated = (vectors.vectors @ rotation).astype(np.float32)
    return TokenVectors(vectors.tokens, rotated), len(vector_pairs)


def procrustes_rotation(rows: np.ndarray, target_rows: np.ndarray) -> np.ndarray:
    """The orthogonal matrix (float64 [d, d]) that maps `rows` to `target_rows`, both [n, d], best.

    In least squares (Schönemann 1966); it may contain a reflection.

    Examples
    --------
    >>> procrustes_rotation(np.eye(2), np.array([[0.0, 1.0], [-1.0, 0.0]])).round().tolist()
    [[0.0, 1.0], [-1.0, 0.0]]
    """
    left, _, right = np.linalg.svd(rows.astype(np.float64).T @ target_rows.astype(np.float64))
    return left @ right


def _spelled(
    tokenizer: PreTrainedTokenizerFast, file: WordVectorFile, unlisted_words: bool
) -> TokenVectors:
    """Give each token the vector of the word that it spells; most parts of words get none."""
    special, word_of_token = special_ids(tokenizer), {}
    for token_id, piece in enumerate(token_bytes(tokenizer)):
        if token_id not in special:
            with contextlib.suppress(UnicodeDecodeError):
                if text := piece.decode("utf-8").strip():
                    word_of_token[token_id] = text
    vector_of_word = file.vectors_of(set(word_of_token.values()), unlisted_words)
    rows = {
        token_id: vector_of_word[text]
        for token_id, text in word_of_token.items()
        if text in vector_of_word
    }
    vectors = np.stack([*rows.values()]) if rows else np.zeros((0, 0), np.float32)
    return TokenVectors(np.array([*rows], dtype=np.int64), vectors)


def _pooled(
    tokenizer: PreTrainedTokenizerFast, file: WordVectorFile, by_frequency: bool, notation: str
) -> TokenVectors:
    """Give each token the mean vector of the words that contain it; zero vectors are left out."""
    spellings = NOTATIONS[notation]
    size = vocabulary_size(tokenizer)
    sums, total_weights = np.zeros((size, 0)), np.zeros(size)
    for words, vectors, counts in file.batches():
        weights = counts if by_frequency else np.ones(len(words))
        if weights is None:
            raise UserError("pooling: 'frequency' needs a .bin file; use 'uniform'")
        word_indices, token_ids = _occurrences(tokenizer, [spellings(word) for word in words])
        shares = csr_array(
            (weights[word_indices], (token_ids, word_indices)), shape=(size, len(words))
        )
        used_ids = np.unique(token_ids)
        if not sums.shape[1]:
            sums = np.zeros((size, vectors.shape[1]))
        sums[used_ids] += shares[used_ids] @ vectors.astype(np.float64)
        total_weights += np.bincount(token_ids, weights[word_indices], minlength=size)
    covered = (total_weights > 0) & sums.any(axis=1)
    covered[list(special_ids(tokenizer))] = False
    covered_ids = np.flatnonzero(covered)
    sums /= np.maximum(total_weights, 1)[:, None]  # in place: this may be large
    return TokenVectors(covered_ids.astype(np.int64), sums[covered_ids].astype(np.float32))


def _occurrences(
    tokenizer: PreTrainedTokenizerFast, spellings: list[list[str]]
) -> tuple[np.ndarray, np.ndarray]:
    """Indices of words and the tokens that they contain, once for each spelling of a word."""
    word_of_text = np.repeat(np.arange(len(spellings)), [len(texts) for texts in spellings])
    encoded = encoder(tokenizer)([text for texts in spellings for text in texts])
    ids_of_texts = [sorted(set(ids)) for ids in encoded]
    tokens = np.array([i for ids in ids_of_texts for i in ids], dtype=np.int64)
    return np.repeat(word_of_text, [len(ids) for ids in ids_of_texts]), tokens


def _colexnet(word: str) -> list[str]:
    """Spellings of a word of ColexNet+ such as `deu:$haus$`: language code, `$` at word edges."""
    without_code = word[4:] if len(word) > 4 and word[3] == ":" else word
    text, stem = (part.replace("$", " ") for part in (without_code, without_code.removeprefix("$")))
    first_space = "" if without_code.startswith("$") else " "
    return [text, f" {text}", first_space + stem[:1].upper() + stem[1:]]


NOTATIONS: dict[str, Callable[[str], list[str]]] = {
    "plain": lambda word: [word, f" {word}"],
    "colexnet": _colexnet,
}


def _forms(word: str) -> tuple[str, str, str]:
    return word, word.lower(), word.title()
