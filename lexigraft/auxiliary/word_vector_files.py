"""Files of word vectors: fastText models (`.bin`), and word2vec's text format (`.vec`, `.vec.gz`).

A file gives the vectors of selected words, or all of them in batches, so that two million words
need the memory of a few thousand.
"""

import contextlib
import gzip
import io
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from tqdm import tqdm

from lexigraft.auxiliary.language_files import BINARY, check_word_vectors
from lexigraft.auxiliary.tokenized_text import END_OF_LINE
from lexigraft.errors import UserError

_WORDS_AT_ONCE = 10_000
_MAGIC = 793712314  # of fastText's binary format
_SETTINGS = 12 * 4 + 8  # twelve integers and a double
_CHUNK = 1 << 20


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
        Number of occurrences of each word in the training text of the vectors; None if the file
        does not contain it.
    """

    words: list[str]
    vectors: np.ndarray
    counts: np.ndarray | None


class WordVectorFile(ABC):
    """One file of word vectors, open for reading."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def vectors_of(self, words: set[str], unlisted: bool = False) -> dict[str, np.ndarray]:
        """Nonzero vectors [dimensions] of those of the words that the file lists.

        Of a word that is listed twice the first vector counts. With `unlisted` also vectors of
        other words, composed of their character n-grams.

        Raises
        ------
        UserError
            The file is truncated, damaged or of another format, or has no n-grams.
        """

    @abstractmethod
    def batches(self) -> Iterator[WordBatch]:
        """All words, a few thousand at a time.

        Raises
        ------
        UserError
            The file is truncated, damaged or of another format.
        """

    def _check_finite(self, *vectors: np.ndarray) -> None:
        if not all(np.isfinite(some).all() for some in vectors):
            raise UserError(
                f"{self.path}: contains vectors that are not finite; copy or download it again"
            )


def open_word_vectors(path: str | Path | WordVectorFile) -> WordVectorFile:
    """Open a fastText model (`.bin`) or a file in word2vec's text format (`.vec`, `.vec.gz`).

    A file that is already open is returned as it is, so that a model is loaded once.

    Raises
    ------
    UserError
        The file is missing, empty, or has another extension.
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
        import fasttext

        _check_binary(self.path)
        # fastText prints a deprecation warning on every load.
        with contextlib.redirect_stderr(io.StringIO()):
            return fasttext.load_model(str(self.path))

    def vectors_of(self, words: set[str], unlisted: bool = False) -> dict[str, np.ndarray]:
        model = self._model
        found = {
            word: model.get_word_vector(word)
            for word in words
            if unlisted or model.get_word_id(word) >= 0
        }
        # Words without n-grams get zero vectors, which are left out.
        self._check_finite(*found.values())
        return {word: vector for word, vector in found.items() if vector.any()}

    def batches(self) -> Iterator[WordBatch]:
        model = self._model
        words, counts = model.get_words(include_freq=True, on_unicode_error="ignore")
        # Invalid UTF-8 is dropped from a word here; the rest may not be a word of the model.
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


class _TextFile(WordVectorFile):
    """The text format of word2vec, read a line at a time."""

    def vectors_of(self, words: set[str], unlisted: bool = False) -> dict[str, np.ndarray]:
        if unlisted:
            raise UserError(
                f"{self.path}: unlisted_words needs a .bin file; this one has no n-grams"
            )
        wanted = {word.encode(): word for word in words}
        starts = {word.split(b" ")[0] for word in wanted}
        found: dict[str, np.ndarray] = {}
        for place, line, dimensions in self._lines():
            # Parsing numbers takes most of the time, and most lines are of other words.
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
        """Yield the number of each line, the line, and the number of dimensions."""
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
                f"{self.path}: contains {read} of {count} words; copy or download it again"
            )

    def _entry(self, place: int, line: bytes, dimensions: int) -> tuple[bytes, np.ndarray]:
        # Words may contain spaces, and lines may end with one.
        word, *numbers = line.rstrip(b" \r\n").rsplit(b" ", dimensions)
        try:
            vector = np.array(numbers, dtype=np.float32)
        except ValueError:
            vector = None
        if vector is None or len(vector) != dimensions:
            raise UserError(f"{self.path}: line {place} does not have {dimensions} numbers")
        return word, vector


def _check_binary(path: str | Path) -> None:
    """Check that a fastText model is not truncated, by the sizes in its header.

    fastText itself makes zero vectors of a truncated file, or the process crashes.

    Raises
    ------
    UserError
        The file is truncated, not a fastText model, or a quantized one.
    """
    try:
        with Path(path).open("rb") as file:
            whole = _announced_size(file)
    except struct.error:
        whole = -1
    if whole == 0:
        raise UserError(f"{path}: not a fastText model, or a quantized one; give the full .bin")
    if whole != Path(path).stat().st_size:
        raise UserError(f"{path}: the file is truncated or damaged; copy or download it again")


def _announced_size(file: BinaryIO) -> int:
    """Size in bytes of the whole file; 0 if it is not a full model."""
    magic, _version = _read(file, "<ii")
    if magic != _MAGIC:
        return 0
    file.seek(_SETTINGS, 1)
    size, _words, _labels, _tokens, pruned = _read(file, "<iiiqq")
    _skip_words(file, size)
    file.seek(8 * max(pruned, 0), 1)
    for _ in ("input", "output"):
        (quantized,) = _read(file, "<?")
        if quantized:
            return 0
        rows, columns = _read(file, "<qq")
        file.seek(4 * rows * columns, 1)
    return file.tell()


def _skip_words(file: BinaryIO, count: int) -> None:
    """Skip the word list: each word ends with a zero byte, then its count and its type follow."""
    at, held = 0, b""
    start = file.tell()
    for _ in range(count):
        while (end := held.find(b"\0", at)) < 0 or end + 10 > len(held):
            more = file.read(_CHUNK)
            if not more:
                raise struct.error("the word list does not end")
            start, held, at = start + at, held[at:] + more, 0
        at = end + 10
    file.seek(start + at)


def _read(file: BinaryIO, layout: str) -> tuple:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))
