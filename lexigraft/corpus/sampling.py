"""Lines stored on disk, and seeded uniform samples of the distinct items of a stream of any length.

A sample (bottom-k) consists of the items with the smallest keyed hashes. The hash depends only on
the item's name and the seed. A repeated item therefore has no higher probability and is not counted
twice, and items outside the sample are not stored. `seed` are the names that seed a draw.
"""

import json
import os
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, Generic, TypeVar, overload

import numpy as np

from lexigraft.artifacts.atomic import atomic_file
from lexigraft.randomness import seed_from

Item = TypeVar("Item")

_READ = 1 << 16  # bytes, or offsets of lines, read at once: lines are mostly read in order
_LINES, _STATE = "lines", "state.npz"  # files of a sample that can be resumed
_SLACK = 100_000  # lines that are stored beyond the sample before some of them are dropped


class StoredLines(Sequence[str]):
    """A selection of lines of a file, in any order, as a sequence of texts.

    `begins` and `ends` are the byte offsets of each line in the file, `sizes` its number of
    characters, all int64 [n]: 24 bytes of memory per line. Lines are read from the file on access.
    """

    def __init__(self, file: IO[bytes], begins: np.ndarray, ends: np.ndarray, sizes: np.ndarray):
        self._file, self._begins, self._ends, self.sizes = file, begins, ends, sizes

    @classmethod
    def of_lines(cls, lines: Iterable[str]) -> "StoredLines":
        """Store lines in a temporary file, deleted with the last sequence that reads it."""
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


def _keyed_hash(seed: tuple[str | int, ...]) -> Callable[[str], int]:
    """A hash function of names with 64 bits, keyed by the seed."""
    key = seed_from(*seed).to_bytes(4, "big")

    def rank(name: str) -> int:
        return int.from_bytes(blake2b(name.encode(), digest_size=8, key=key).digest(), "big")

    return rank


class StreamSample(Generic[Item]):
    """A sample in memory of at most `size` items (None: all distinct items)."""

    def __init__(self, size: int | None, seed: tuple[str | int, ...]):
        self.size = size
        self._rank = _keyed_hash(seed)
        # hash -> score, position in the stream, item; in random order once it is `_cut`
        self._sample: dict[int, tuple[float, int, Item]] = {}
        self._seen = 0

    def __len__(self) -> int:
        return len(self._cut())

    def add(self, item: Item, name: str, score: float = 0.0) -> None:
        """Add the item to the sample if its hash is among the smallest; `name` identifies it.

        Items with the highest `score` are preferred; among equal scores the sample is random.
        """
        self._seen += 1
        self._sample.setdefault(self._rank(name), (score, self._seen, item))
        if self.size is not None and len(self._sample) > 2 * self.size + _SLACK:
            self._cut()

    def ordered(self) -> list[Item]:
        """The sample in the order of the stream."""
        return [item for _, _, item in sorted(self._cut().values(), key=lambda entry: entry[1])]

    def shuffled(self) -> list[Item]:
        """The sample in random order."""
        return [entry[2] for entry in self._cut().values()]

    def _cut(self) -> dict[int, tuple[float, int, Item]]:
        best = sorted(self._sample, key=lambda rank: (-self._sample[rank][0], rank))[: self.size]
        self._sample = {rank: self._sample[rank] for rank in sorted(best)}
        return self._sample


class StoredSample:
    """A sample of lines that are stored on disk, with 32 bytes of memory per line.

    The sample is as large as `lines` and `characters` allow (None: no limit). Lines are stored in
    `folder`, or in a temporary file. With a folder, a new sample with the same arguments resumes
    from the last `save`, whose arguments, a state and some bytes, are in `restored`.
    """

    def __init__(
        self,
        seed: tuple[str | int, ...],
        lines: int | None = None,
        characters: int | None = None,
        folder: Path | None = None,
    ):
        self._lines, self._characters, self._folder = lines, characters, folder
        self._rank = _keyed_hash(seed)
        self._highest = 2**64 - 1  # the largest hash that can be in the sample
        # One value per line; `sizes` are numbers of characters.
        self._arrays = {
            name: array(code)
            for name, code in (("ranks", "Q"), ("begins", "q"), ("ends", "q"), ("sizes", "q"))
        }
        self._checked = 0  # number of lines after the last call of `_drop`
        self.restored: tuple[dict[str, Any], bytes] | None = None
        self._file: IO[bytes] = self._open()

    def _open(self) -> IO[bytes]:
        """Open the file of lines at its end."""
        if self._folder is None:
            return tempfile.TemporaryFile()
        self._folder.mkdir(parents=True, exist_ok=True)
        state, lines = self._folder / _STATE, self._folder / _LINES
        if not state.is_file() or not lines.is_file():
            return lines.open("w+b")
        with np.load(state, allow_pickle=False) as stored:
            for name, values in self._arrays.items():
                values.frombytes(stored[name].tobytes())
            self._highest, size = int(stored["highest"]), int(stored["size"])
            self.restored = json.loads(str(stored["state"])), stored["more"].tobytes()
        self._checked = len(self._arrays["ranks"])
        file = lines.open("r+b")
        file.truncate(file.seek(size))
        return file

    def add(self, line: str) -> None:
        """Add a line to the sample if its hash is among the smallest."""
        rank = self._rank(line)
        if rank > self._highest:
            return
        content, begin = line.encode(), self._file.tell()
        self._file.write(content)
        values = (rank, begin, begin + len(content), len(line))
        for column, value in zip(self._arrays.values(), values, strict=True):
            column.append(value)
        if len(self._arrays["ranks"]) > 2 * self._checked + _SLACK:
            self._drop()

    def ordered(self) -> StoredLines:
        """The sample in the order of the stream."""
        self._drop()
        self._file.flush()
        _, *arrays = (np.array(values).astype(np.int64) for values in self._arrays.values())
        return StoredLines(self._file, *arrays)

    def save(self, state: dict[str, Any], more: bytes = b"") -> None:
        """Store the sample with a state of the stream, from which another process can resume."""
        assert self._folder is not None
        self._drop()
        self._file.flush()
        os.fsync(self._file.fileno())
        arrays: dict[str, Any] = {name: np.array(values) for name, values in self._arrays.items()}
        with atomic_file(self._folder / _STATE) as temporary, temporary.open("wb") as out:
            np.savez(
                out,
                highest=np.uint64(self._highest),
                size=np.int64(self._file.tell()),
                state=np.array(json.dumps(state)),
                more=np.frombuffer(more, dtype=np.uint8),
                **arrays,
            )

    def _drop(self) -> None:
        """Drop repeated lines, and those that can no longer be in the sample."""
        ranks = np.array(self._arrays["ranks"], dtype=np.uint64)
        distinct, first = np.unique(ranks, return_index=True)  # index of the first of equal ones
        size = len(distinct) if self._lines is None else min(self._lines, len(distinct))
        if self._characters is not None:
            together = np.cumsum(np.array(self._arrays["sizes"], dtype=np.int64)[first])
            size = min(size, int(np.searchsorted(together, self._characters, "right")))
        if size < len(distinct):
            self._highest = int(distinct[size]) - 1
        remaining = np.sort(first[:size])
        for name, values in self._arrays.items():
            selected = np.frombuffer(values, dtype=values.typecode)[remaining]
            self._arrays[name] = array(values.typecode, selected.tobytes())
        self._checked = size
