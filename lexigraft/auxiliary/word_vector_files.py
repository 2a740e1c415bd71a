"""Files of word vectors: fastText models (`.bin`), and word2vec's text format (`.vec`, `.vec.gz`).

Vectors are read for selected words, or for all words in batches, in bounded memory.
"""

import contextlib
import gzip
import io
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from lexigraft.auxiliary.language_files import BINARY, END_OF_LINE, check_word_vectors
from lexigraft.errors import UserError

# Words, their vectors (float32 [words, dimensions]), and the frequency of each word in the text on
# which these were trained; None if the file does not contain it.
WordBatch = tuple[list[str], np.ndarray, np.ndarray | None]
_WORDS_AT_ONCE = 10_000
_MAGIC = 793712314  # of fastText's binary format
_SIZES = 8 + 12 * 4 + 8  # offset: after magic, version, twelve integers and a double


class WordVectorFile(ABC):
    """One file of word vectors, open for reading.

    Both methods raise a UserError if it is truncated, damaged or of another format.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def vectors_of(self, words: set[str], unlisted_words: bool = False) -> dict[str, np.ndarray]:
        """Nonzero vectors [dimensions] of the given words that the file lists.

        With `unlisted_words`, other words get a vector composed of their character n-grams; raises
        a UserError if the file has none.
        """

    @abstractmethod
    def batches(self) -> Iterator[WordBatch]:
        """All words in the order of the file, a few thousand at a time."""

    def _nonzero(self, vectors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        self._check_finite(*vectors.values())
        return {word: vector for word, vector in vectors.items() if vector.any()}

    def _check_finite(self, *vectors: np.ndarray) -> None:
        if not all(np.isfinite(vector).all() for vector in vectors):
            raise UserError(
                f"{self.path}: contains vectors that are not finite; copy or download it again"
            )


def open_word_vectors(path: str | Path | WordVectorFile) -> WordVectorFile:
    """Open a fastText model (`.bin`) or a file in word2vec's text format (`.vec`, `.vec.gz`).

    A file that is already open is returned unchanged, so a model is loaded once.
    """
    if isinstance(path, WordVectorFile):
        return path
    check_word_vectors(path, "word_vectors")
    file = Path(path)
    return _BinaryFile(file) if file.suffix == BINARY else _TextFile(file)


class _BinaryFile(WordVectorFile):
    """A fastText model, loaded as a whole at first use."""

    @cached_property
    def _model(self) -> Any:
        import fasttext  # missing on Python 3.13, for which it has no wheel

        # With a truncated file, fastText returns zero vectors or crashes.
        try:
            with self.path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
                announced_size = _announced_size(data)
        except struct.error:
            announced_size = -1
        if announced_size == 0:
            raise UserError(
                f"{self.path}: not a fastText model, or a quantized one; give the full .bin file"
            )
        if announced_size != self.path.stat().st_size:
            raise UserError(
                f"{self.path}: the file is truncated or damaged; copy or download it again"
            )
        # fastText prints a deprecation warning on every load.
        with contextlib.redirect_stderr(io.StringIO()):
            return fasttext.load_model(str(self.path))

    def vectors_of(self, words: set[str], unlisted_words: bool = False) -> dict[str, np.ndarray]:
        model = self._model
        vectors = {
            word: model.get_word_vector(word)
            for word in words
            if unlisted_words or model.get_word_id(word) >= 0
        }
        return self._nonzero(vectors)  # words without n-grams get zero vectors

    def batches(self) -> Iterator[WordBatch]:
        model = self._model
        words, counts = model.get_words(include_freq=True, on_unicode_error="ignore")
        # Invalid UTF-8 is dropped from a word here; the rest may not be a word of the model.
        listed_words = [
            (word, count)
            for word, count in zip(words, counts.tolist(), strict=True)
            if word != END_OF_LINE and model.get_word_id(word) >= 0
        ]
        entries = iter(tqdm(listed_words, self.path.name, unit=" words", disable=None))
        while batch := list(islice(entries, _WORDS_AT_ONCE)):
            batch_words = [word for word, _ in batch]
            vectors = np.stack([model.get_word_vector(word) for word in batch_words])
            self._check_finite(vectors)
            yield batch_words, vectors, np.array([count for _, count in batch], np.float64)


class _TextFile(WordVectorFile):
    """The text format of word2vec, read line by line."""

    def vectors_of(self, words: set[str], unlisted_words: bool = False) -> dict[str, np.ndarray]:
        if unlisted_words:
            raise UserError(
                f"{self.path}: unlisted_words needs a .bin file; this one has no n-grams"
            )
        word_of_bytes = {word.encode(): word for word in words}
        first_parts = {word.split(b" ")[0] for word in word_of_bytes}
        vectors: dict[str, np.ndarray] = {}
        for number, line, dimensions in self._lines():
            # Parsing numbers takes most of the time, and most lines are of other words.
            if line.partition(b" ")[0] in first_parts:
                word, vector = self._entry(number, line, dimensions)
                if word in word_of_bytes:
                    vectors.setdefault(word_of_bytes[word], vector)
        return self._nonzero(vectors)

    def batches(self) -> Iterator[WordBatch]:
        entries = (self._entry(*line) for line in self._lines())
        while batch := list(islice(entries, _WORDS_AT_ONCE)):
            listed = [(word, vector) for word, vector in batch if word != END_OF_LINE.encode()]
            if listed:
                vectors = np.stack([vector for _, vector in listed])
                self._check_finite(vectors)
                yield [word.decode(errors="replace") for word, _ in listed], vectors, None

    def _lines(self) -> Iterator[tuple[int, bytes, int]]:
        """Yield the number of each line, the line, and the number of dimensions in the header."""
        is_compressed, words_read = self.path.suffix == ".gz", 0
        try:
            with gzip.open(self.path, "rb") if is_compressed else self.path.open("rb") as lines:
                header = next(lines, b"").split()
                if len(header) != 2 or not all(part.isdigit() for part in header):
                    raise UserError(
                        f"{self.path}: its first line does not give the number of words and their "
                        "dimensions"
                    )
                count, dimensions = map(int, header)
                progress = tqdm(lines, self.path.name, count, unit=" words", disable=None)
                for words_read, line in enumerate(progress, 1):
                    yield words_read + 1, line, dimensions
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"{self.path}: the gzip file is damaged ({error})") from None
        if words_read != count:
            raise UserError(
                f"{self.path}: contains {words_read} of {count} words; copy or download it again"
            )

    def _entry(self, number: int, line: bytes, dimensions: int) -> tuple[bytes, np.ndarray]:
        # Words may contain spaces, and lines may end with one.
        word, *numbers = line.rstrip(b" \r\n").rsplit(b" ", dimensions)
        try:
            vector = np.array(numbers, dtype=np.float32)
        except ValueError:
            vector = None
        if vector is None or len(vector) != dimensions:
            raise UserError(f"{self.path}: line {number} does not have {dimensions} numbers")
        return word, vector


def _announced_size(data: mmap) -> int:
    """Size in bytes that the whole file should have; 0 if it is not a full model."""
    if struct.unpack_from("<i", data)[0] != _MAGIC:
        return 0
    size, _words, _labels, _tokens, pruned = struct.unpack_from("<iiiqq", data, _SIZES)
    offset = _SIZES + struct.calcsize("<iiiqq")
    for _ in range(size):  # each word ends with a zero byte, followed by its count and type
        if (end := data.find(b"\0", offset)) < 0:
            raise struct.error("the word list is not terminated")
        offset = end + 10
    offset += 8 * max(pruned, 0)
    for _ in ("input", "output"):
        quantized, rows, columns = struct.unpack_from("<?qq", data, offset)
        if quantized:
            return 0
        offset += struct.calcsize("<?qq") + 4 * rows * columns
    return offset
