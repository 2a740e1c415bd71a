"""A sequence of lines stored on disk: each takes 24 bytes of memory, regardless of its length."""

import os
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, overload

import numpy as np

_READ = 1 << 16  # bytes, or offsets of lines, read at once: lines are mostly read in order


class StoredLines(Sequence[str]):
    """A selection of lines of a file, in any order, as a sequence of texts.

    `begins` and `ends` are the byte offsets of each line in the file, `sizes` its number of
    characters, all int64 [n]. Lines are read from the file on access; an unnamed file is deleted
    with the last sequence that reads it.
    """

    def __init__(self, file: IO[bytes], begins: np.ndarray, ends: np.ndarray, sizes: np.ndarray):
        self._file, self._begins, self._ends, self.sizes = file, begins, ends, sizes

    @classmethod
    def of_lines(cls, lines: Iterable[str]) -> "StoredLines":
        """Store lines in an unnamed temporary file."""
        file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (the sequence reads it)
        ends, sizes = array("q", [0]), array("q")
        for line in lines:
            ends.append(ends[-1] + file.write(line.encode()))
            sizes.append(len(line))
        file.flush()
        offsets = np.array(ends, dtype=np.int64)
        return cls(file, offsets[:-1], offsets[1:], np.array(sizes, dtype=np.int64))

    @classmethod
    def of_file(cls, path: str | Path) -> "StoredLines":
        """All lines of a UTF-8 file; only a line feed ends a line."""
        file = Path(path).open("rb")  # noqa: SIM115 (the sequence reads it)
        ends, sizes = array("q", [0]), array("q")
        for line in file:
            ends.append(ends[-1] + len(line))
            sizes.append(len(line.decode()) - 1)
        offsets = np.array(ends, dtype=np.int64)
        return cls(file, offsets[:-1], offsets[1:] - 1, np.array(sizes, dtype=np.int64))

    def __len__(self) -> int:
        return len(self._begins)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "StoredLines": ...
    def __getitem__(self, index: int | slice) -> "str | StoredLines":
        if isinstance(index, slice):
            return self.select(index)
        begin, end = int(self._begins[index]), int(self._ends[index])
        return os.pread(self._file.fileno(), end - begin, begin).decode()

    def __iter__(self) -> Iterator[str]:
        content, start = b"", 0
        for first in range(0, len(self), _READ):  # all offsets as integers may take gigabytes
            chunk = slice(first, first + _READ)
            begins, ends = self._begins[chunk].tolist(), self._ends[chunk].tolist()
            for begin, end in zip(begins, ends, strict=True):
                if begin < start or end > start + len(content):
                    start = begin
                    content = os.pread(self._file.fileno(), max(end - begin, _READ), begin)
                yield content[begin - start : end - start].decode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def counts(self) -> dict[str, int]:
        """Number of sentences, characters and UTF-8 bytes, without reading the file."""
        characters, size = self.sizes.sum(), (self._ends - self._begins).sum()
        return {"sentences": len(self), "characters": int(characters), "bytes": int(size)}

    def select(self, selection: np.ndarray | slice) -> "StoredLines":
        """The selected lines, by indices, a slice, or a mask, bool [n]."""
        arrays = (self._begins, self._ends, self.sizes)
        return StoredLines(self._file, *(values[selection] for values in arrays))

    def without(self, is_excluded: Callable[[str], bool]) -> "StoredLines":
        """The lines that are not excluded; all of them are read once."""
        mask = (not is_excluded(line) for line in self)
        return self.select(np.fromiter(mask, bool, len(self)))
