"""A sequence of lines stored on disk, and a uniform sample of a stream of any length.

Each line takes 24 bytes of memory, regardless of its length, and 32 while a sample is drawn.
"""

import json
import os
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, overload

import numpy as np

from lexigraft.artifacts.atomic import replacing
from lexigraft.corpus.sampling import keyed_hash

_LINES, _STATE = "lines", "state.npz"  # files of a sample that can be resumed
_ARRAYS = ("ranks", "begins", "ends", "sizes")  # arrays with one value per line
_HIGHEST = 2**64 - 1
_SLACK = 100_000  # lines that are stored beyond the sample before some of them are dropped
_READ = 1 << 16  # bytes, or positions of lines, read at once: lines are mostly read in order


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
        places = np.array(ends, dtype=np.int64)
        return cls(file, places[:-1], places[1:], np.array(sizes, dtype=np.int64))

    @classmethod
    def of_file(cls, path: str | Path) -> "StoredLines":
        """All lines of a UTF-8 file; only a line feed ends a line."""
        file = Path(path).open("rb")  # noqa: SIM115 (the sequence reads it)
        ends, sizes = array("q", [0]), array("q")
        for line in file:
            ends.append(ends[-1] + len(line))
            sizes.append(len(line.decode()) - 1)
        places = np.array(ends, dtype=np.int64)
        return cls(file, places[:-1], places[1:] - 1, np.array(sizes, dtype=np.int64))

    def __len__(self) -> int:
        return len(self._begins)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> "StoredLines": ...
    def __getitem__(self, place: int | slice) -> "str | StoredLines":
        if isinstance(place, slice):
            return self.select(place)
        begin, end = int(self._begins[place]), int(self._ends[place])
        return os.pread(self._file.fileno(), end - begin, begin).decode()

    def __iter__(self) -> Iterator[str]:
        content, start = b"", 0
        for at in range(0, len(self), _READ):  # all offsets as Python integers may take gigabytes
            begins, ends = (each[at : at + _READ].tolist() for each in (self._begins, self._ends))
            for begin, end in zip(begins, ends, strict=True):
                if begin < start or end > start + len(content):
                    start, wanted = begin, max(end - begin, _READ)
                    content = os.pread(self._file.fileno(), wanted, begin)
                yield content[begin - start : end - start].decode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def counts(self) -> dict[str, int]:
        """Number of sentences, characters and UTF-8 bytes, without reading the file."""
        characters, size = self.sizes.sum(), (self._ends - self._begins).sum()
        return {"sentences": len(self), "characters": int(characters), "bytes": int(size)}

    def select(self, chosen: np.ndarray | slice) -> "StoredLines":
        """The lines selected by `chosen`: indices, a slice, or a mask, bool [n]."""
        arrays = (self._begins, self._ends, self.sizes)
        return StoredLines(self._file, *(values[chosen] for values in arrays))

    def without(self, excluded: Callable[[str], bool]) -> "StoredLines":
        """The lines that are not excluded; all of them are read once."""
        kept = (not excluded(line) for line in self)
        return self.select(np.fromiter(kept, bool, len(self)))


class StoredSample:
    """The distinct lines of a stream with the smallest keyed hashes, like `sampling.StreamSample`.

    The sample is as large as `lines` and `characters` allow (None: no limit). Lines are stored in
    `folder`, or in a temporary file. `seed` are the names that seed the draw.

    With a folder, `save` stores the sample next to the lines, and a new sample with the same
    arguments resumes from it: `restored` are the arguments of `save`, a state and some bytes.
    """

    def __init__(
        self,
        seed: tuple[str | int, ...],
        lines: int | None = None,
        characters: int | None = None,
        folder: str | Path | None = None,
    ):
        self._lines, self._characters = lines, characters
        self._rank = keyed_hash(seed)
        self._folder = None if folder is None else Path(folder)
        self._highest = _HIGHEST  # the largest hash that can be in the sample
        self._ranks, self._begins, self._ends = array("Q"), array("q"), array("q")
        self._sizes = array("q")  # characters
        self._checked = 0  # number of lines after the last call of `_drop`
        self.restored: tuple[dict[str, Any], bytes] | None = None
        self._file: IO[bytes] = self._open()

    def add(self, line: str) -> None:
        """Add a line to the sample if its hash is among the smallest."""
        rank = self._rank(line)
        if rank > self._highest:
            return
        content = line.encode()
        begin = self._file.tell()
        self._file.write(content)
        self._ranks.append(rank)
        self._begins.append(begin)
        self._ends.append(begin + len(content))
        self._sizes.append(len(line))
        if len(self._ranks) > 2 * self._checked + _SLACK:
            self._drop()

    def ordered(self) -> StoredLines:
        """The sample in the order of the stream."""
        self._drop()
        self._file.flush()
        arrays = (self._begins, self._ends, self._sizes)
        return StoredLines(self._file, *(np.array(values, dtype=np.int64) for values in arrays))

    def save(self, state: dict[str, Any], more: bytes = b"") -> None:
        """Store the sample with a state of the stream, from which another process can resume."""
        assert self._folder is not None
        self._drop()
        self._file.flush()
        os.fsync(self._file.fileno())
        with replacing(self._folder / _STATE) as temporary, temporary.open("wb") as out:
            np.savez(
                out,
                highest=np.uint64(self._highest),
                size=np.int64(self._file.tell()),
                state=np.array(json.dumps(state)),
                more=np.frombuffer(more, dtype=np.uint8),
                ranks=np.array(self._ranks),
                begins=np.array(self._begins),
                ends=np.array(self._ends),
                sizes=np.array(self._sizes),
            )

    def _open(self) -> IO[bytes]:
        """Open the file of lines at its end."""
        if self._folder is None:
            return tempfile.TemporaryFile()
        self._folder.mkdir(parents=True, exist_ok=True)
        state, lines = self._folder / _STATE, self._folder / _LINES
        if not state.is_file() or not lines.is_file():
            return lines.open("w+b")
        with np.load(state, allow_pickle=False) as found:
            for name in _ARRAYS:
                getattr(self, f"_{name}").frombytes(found[name].tobytes())
            self._highest, size = int(found["highest"]), int(found["size"])
            self.restored = json.loads(str(found["state"])), found["more"].tobytes()
        self._checked = len(self._ranks)
        file = lines.open("r+b")
        file.truncate(file.seek(size))
        return file

    def _drop(self) -> None:
        """Drop repeated lines, and those that can no longer be in the sample."""
        ranks = np.array(self._ranks, dtype=np.uint64)
        distinct, first = np.unique(ranks, return_index=True)  # index of the first of equal ones
        kept = len(distinct) if self._lines is None else min(self._lines, len(distinct))
        if self._characters is not None:
            together = np.cumsum(np.array(self._sizes, dtype=np.int64)[first])
            kept = min(kept, int(np.searchsorted(together, self._characters, "right")))
        if kept < len(distinct):
            self._highest = int(distinct[kept]) - 1
        places = np.sort(first[:kept])
        for name in _ARRAYS:
            own: array[int] = getattr(self, f"_{name}")
            left = np.frombuffer(own, dtype=own.typecode)[places]
            setattr(self, f"_{name}", array(own.typecode, left.tobytes()))
        self._checked = kept
