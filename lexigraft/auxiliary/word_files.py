"""Files of word vectors: fastText models (`.bin`), and word2vec's text format (`.vec`, `.vec.gz`).

A file is asked for the words that are wanted, or for all of them in batches, so that two million
words fit in the memory of a few thousand.
"""

import contextlib
import gzip
import io
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from lexigraft.auxiliary.fasttext_binary import check_binary
from lexigraft.auxiliary.files import BINARY, check_word_vectors
from lexigraft.auxiliary.tokenized_text import END_OF_LINE
from lexigraft.errors import UserError

_WORDS_AT_ONCE = 10_000


@dataclass(frozen=True)
class WordBatch:
    """Some words of a file.

    Attributes
    ----------
    words
        The words, in the order of the file.
    vectors
        float32 [len(words), dimensions].
    counts
        How often each word occurs in the text that the vectors were trained on; None where the
        file does not say.
    """

    words: list[str]
    vectors: np.ndarray
    counts: np.ndarray | None


class WordFile(ABC):
    """One file of word vectors, open for reading."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def vectors_of(self, words: set[str], unlisted: bool = False) -> dict[str, np.ndarray]:
        """Vectors [dimensions] of those of the words that the file lists and that are not zero.

        Of a word that it lists twice, the first. With `unlisted` also of words that it does not
        list, made of their character n-grams.

        Raises
        ------
        UserError
            The file is cut off, damaged or of another format, or holds no n-grams.
        """

    @abstractmethod
    def batches(self) -> Iterator[WordBatch]:
        """All words, a few thousand at a time.

        Raises
        ------
        UserError
            The file is cut off, damaged or of another format.
        """

    def _check_finite(self, *vectors: np.ndarray) -> None:
        if not all(np.isfinite(some).all() for some in vectors):
            raise UserError(
                f"{self.path}: holds vectors that are not finite; copy or download it again"
            )


def open_words(path: str | Path | WordFile) -> WordFile:
    """Open a fastText model (`.bin`) or a file in word2vec's text format (`.vec`, `.vec.gz`).

    One that is open already is handed back: a model is loaded once.

    Raises
    ------
    UserError
        The file is missing, empty, or named as none of these.
    """
    if isinstance(path, WordFile):
        return path
    check_word_vectors(path, "word_vectors")
    file = Path(path)
    return _Binary(file) if file.suffix == BINARY else _Text(file)


class _Binary(WordFile):
    """A fastText model, loaded as a whole at the first question."""

    @cached_property
    def _model(self) -> Any:
        import fasttext

        check_binary(self.path)
        # It warns of a change of its own interface on every load.
        with contextlib.redirect_stderr(io.StringIO()):
            return fasttext.load_model(str(self.path))

    def vectors_of(self, words: set[str], unlisted: bool = False) -> dict[str, np.ndarray]:
        model = self._model
        found = {
            word: model.get_word_vector(word)
            for word in words
            if unlisted or model.get_word_id(word) >= 0
        }
        # Words without an n-gram of their own come out as zeros, which point nowhere.
        self._check_finite(*found.values())
        return {word: vector for word, vector in found.items() if vector.any()}

    def batches(self) -> Iterator[WordBatch]:
        model = self._model
        words, counts = model.get_words(include_freq=True, on_unicode_error="ignore")
        # A word that is no text has lost its bytes here and is not listed under what is left.
        listed = [
            (word, count)
            for word, count in zip(words, counts.tolist(), strict=True)
            if word != END_OF_LINE and model.get_word_id(word) >= 0
        ]
        entries = iter(tqdm(listed, self.path.name, unit=" words", disable=None))
        while batch := list(islice(entries, _WORDS_AT_ONCE)):
            some = [word for word, _ in batch]
            vectors = np.stack([model.get_word_vector(word) for word in some])
            self._check_finite(vectors)
            yield WordBatch(some, vectors, np.array([count for _, count in batch], np.float64))


class _Text(WordFile):
    """Word2vec's text format, read a line at a time."""

    def vectors_of(self, words: set[str], unlisted: bool = False) -> dict[str, np.ndarray]:
        if unlisted:
            raise UserError(
                f"{self.path}: unlisted_words needs a .bin file; this one holds no n-grams"
            )
        wanted = {word.encode(): word for word in words}
        starts = {word.split(b" ")[0] for word in wanted}
        found: dict[str, np.ndarray] = {}
        for place, line, dimensions in self._lines():
            # Most lines are of no wanted word, and taking numbers apart is what costs time.
            if line.partition(b" ")[0] in starts:
                word, vector = self._entry(place, line, dimensions)
                if word in wanted:
                    found.setdefault(wanted[word], vector)
        self._check_finite(*found.values())
        return {word: vector for word, vector in found.items() if vector.any()}

    def batches(self) -> Iterator[WordBatch]:
        entries = (self._entry(*line) for line in self._lines())
        while batch := list(islice(entries, _WORDS_AT_ONCE)):
            kept = [(word, vector) for word, vector in batch if word != END_OF_LINE.encode()]
            if kept:
                vectors = np.stack([vector for _, vector in kept])
                self._check_finite(vectors)
                words = [word.decode(errors="replace") for word, _ in kept]
                yield WordBatch(words, vectors, None)

    def _lines(self) -> Iterator[tuple[int, bytes, int]]:
        """Number of each line, the line, and how many numbers are at its end."""
        packed = self.path.suffix == ".gz"
        try:
            with gzip.open(self.path, "rb") if packed else self.path.open("rb") as lines:
                yield from self._read(lines)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"{self.path}: the gzip file is damaged ({error})") from None

    def _read(self, lines: Iterator[bytes]) -> Iterator[tuple[int, bytes, int]]:
        header = next(lines, b"").split()
        if len(header) != 2 or not all(part.isdigit() for part in header):
            raise UserError(
                f"{self.path}: its first line is not the number of words and of dimensions"
            )
        count, dimensions = map(int, header)
        read = 0
        progress = tqdm(lines, self.path.name, count, unit=" words", disable=None)
        for read, line in enumerate(progress, 1):
            yield read + 1, line, dimensions
        if read != count:
            raise UserError(
                f"{self.path}: holds {read} of {count} words; copy or download it again"
            )

    def _entry(self, place: int, line: bytes, dimensions: int) -> tuple[bytes, np.ndarray]:
        # Words may hold spaces, and lines may end in one.
        word, *numbers = line.rstrip(b" \r\n").rsplit(b" ", dimensions)
        try:
            vector = np.array(numbers, dtype=np.float32)
        except ValueError:
            vector = None
        if vector is None or len(vector) != dimensions:
            raise UserError(f"{self.path}: line {place} does not hold {dimensions} numbers")
        return word, vector
