"""Seeded uniform samples of the distinct items of a stream of any length (bottom-k sampling).

A sample consists of the items with the smallest keyed hashes. The hash depends only on the item's
name and the seed. A repeated item therefore has no higher probability and is not counted twice, and
items outside the sample are not stored. `seed` are the names that seed a draw.
"""

import heapq
import json
import os
import tempfile
from array import array
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

import numpy as np

from lexigraft.artifacts.atomic import atomic_file
from lexigraft.corpus.stored_lines import StoredLines
from lexigraft.randomness import seed_from

Item = TypeVar("Item")

_LINES, _STATE = "lines", "state.npz"  # files of a sample that can be resumed
_ARRAYS = ("ranks", "begins", "ends", "sizes")  # arrays with one value per line
_HIGHEST = 2**64 - 1
_SLACK = 100_000  # lines that are stored beyond the sample before some of them are dropped


def keyed_hash(seed: tuple[str | int, ...]) -> Callable[[str], int]:
    """A hash function of names with 64 bits, keyed by the seed: the smallest hashes are drawn."""
    key = seed_from(*seed).to_bytes(4, "big")

    def rank(name: str) -> int:
        return int.from_bytes(blake2b(name.encode(), digest_size=8, key=key).digest(), "big")

    return rank


class StreamSample(Generic[Item]):
    """A sample in memory of at most `size` items (None: all distinct items)."""

    def __init__(self, size: int | None, seed: tuple[str | int, ...]):
        self.size = size
        self._rank = keyed_hash(seed)
        self._seen = 0
        self._sample: dict[int, tuple[int, Item]] = {}  # hash -> position in the stream, item
        # A heap of (score, negated hash) of the items; the first one is replaced next.
        self._worst: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._sample)

    def add(self, item: Item, name: str, score: float = 0.0) -> None:
        """Add the item to the sample if its hash is among the smallest; `name` identifies it.

        Items with the highest `score` are preferred; among equal scores the sample is random.
        """
        rank = self._rank(name)
        self._seen += 1
        if self.size is None or len(self._sample) < self.size:
            if rank not in self._sample:
                heapq.heappush(self._worst, (score, -rank))
                self._sample[rank] = (self._seen, item)
        elif self._worst and (score, -rank) > self._worst[0] and rank not in self._sample:
            del self._sample[-heapq.heapreplace(self._worst, (score, -rank))[1]]
            self._sample[rank] = (self._seen, item)

    def ordered(self) -> list[Item]:
        """The sample in the order of the stream."""
        return [item for _, item in sorted(self._sample.values(), key=lambda entry: entry[0])]

    def shuffled(self) -> list[Item]:
        """The sample in random order."""
        return [self._sample[rank][1] for rank in sorted(self._sample)]


class StoredSample:
    """A sample of lines that are stored on disk, with 32 bytes of memory per line.

    The sample is as large as `lines` and `characters` allow (None: no limit). Lines are stored in
    `folder`, or in a temporary file.

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
        with atomic_file(self._folder / _STATE) as temporary, temporary.open("wb") as out:
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
        with np.load(state, allow_pickle=False) as stored:
            for name in _ARRAYS:
                getattr(self, f"_{name}").frombytes(stored[name].tobytes())
            self._highest, size = int(stored["highest"]), int(stored["size"])
            self.restored = json.loads(str(stored["state"])), stored["more"].tobytes()
        self._checked = len(self._ranks)
        file = lines.open("r+b")
        file.truncate(file.seek(size))
        return file

    def _drop(self) -> None:
        """Drop repeated lines, and those that can no longer be in the sample."""
        ranks = np.array(self._ranks, dtype=np.uint64)
        distinct, first = np.unique(ranks, return_index=True)  # index of the first of equal ones
        size = len(distinct) if self._lines is None else min(self._lines, len(distinct))
        if self._characters is not None:
            together = np.cumsum(np.array(self._sizes, dtype=np.int64)[first])
            size = min(size, int(np.searchsorted(together, self._characters, "right")))
        if size < len(distinct):
            self._highest = int(distinct[size]) - 1
        remaining = np.sort(first[:size])
        for name in _ARRAYS:
            values: array[int] = getattr(self, f"_{name}")
            selected = np.frombuffer(values, dtype=values.typecode)[remaining]
            setattr(self, f"_{name}", array(values.typecode, selected.tobytes()))
        self._checked = size
