"""Seeded uniform sampling of the distinct items of a stream; only the sample is in memory."""

import heapq
from collections.abc import Callable
from hashlib import blake2b
from typing import Generic, TypeVar

from lexigraft.randomness import seed_from

Item = TypeVar("Item")


def keyed_hash(seed: tuple[str | int, ...]) -> Callable[[str], int]:
    """A hash function of names with 64 bits, keyed by the seed: the smallest hashes are drawn."""
    key = seed_from(*seed).to_bytes(4, "big")

    def rank(name: str) -> int:
        return int.from_bytes(blake2b(name.encode(), digest_size=8, key=key).digest(), "big")

    return rank


class StreamSample(Generic[Item]):
    """The items with the smallest keyed hashes (bottom-k sampling).

    The hash depends only on the item's name and the seed. A repeated item therefore has no higher
    probability and is not counted twice, and items outside the sample are not stored: a file of any
    length takes the memory of `size` items (None keeps every distinct item). `seed` are the names
    that seed the draw.
    """

    def __init__(self, size: int | None, seed: tuple[str | int, ...]):
        self.size = size
        self._rank = keyed_hash(seed)
        self._seen = 0
        self._kept: dict[int, tuple[int, Item]] = {}  # hash -> position in the stream, item
        # A heap of (score, negated hash) of the kept items; the first one is replaced next.
        self._last: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, item: Item, name: str, score: float = 0.0) -> None:
        """Add the item to the sample if its hash is among the smallest; `name` identifies it.

        Items with the highest `score` are preferred; among equal scores the sample is random.
        """
        rank = self._rank(name)
        self._seen += 1
        if self.size is None or len(self._kept) < self.size:
            if rank not in self._kept:
                heapq.heappush(self._last, (score, -rank))
                self._kept[rank] = (self._seen, item)
        elif self._last and (score, -rank) > self._last[0] and rank not in self._kept:
            del self._kept[-heapq.heapreplace(self._last, (score, -rank))[1]]
            self._kept[rank] = (self._seen, item)

    def ordered(self) -> list[Item]:
        """The sample in the order of the stream."""
        return [item for _, item in sorted(self._kept.values(), key=lambda kept: kept[0])]

    def shuffled(self) -> list[Item]:
        """The sample in random order."""
        return [self._kept[rank][1] for rank in sorted(self._kept)]
