"""A seeded uniform sample of the distinct items of a stream, in the memory of the sample alone."""

import heapq
from hashlib import blake2b
from typing import Generic, TypeVar

from lexigraft.randomness import seed_from

Item = TypeVar("Item")


class Sample(Generic[Item]):
    """The items whose keyed hashes are smallest; `size` None keeps every distinct item.

    An item's hash depends on its name and the seed alone. So an item that comes again neither
    counts twice nor has twice the odds, and nothing has to be remembered of the items that are not
    in the sample: a file of any length takes the memory of `size` items.

    Parameters
    ----------
    size
        How many items at most.
    seed
        The names that seed the draw.
    """

    def __init__(self, size: int | None, seed: tuple[str | int, ...]):
        self.size = size
        self._key = seed_from(*seed).to_bytes(4, "big")
        self._seen = 0
        self._kept: dict[int, tuple[int, Item]] = {}  # by hash: place in the stream, item
        # A heap of (score, hash negated) of what is kept: what goes next is first.
        self._last: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, item: Item, name: str, score: float = 0.0) -> None:
        """Take the item into the sample if its hash is among the smallest; `name` identifies it.

        Of items with a `score`, those with the highest ones are taken, and of equal ones a random
        sample.
        """
        digest = blake2b(name.encode(), digest_size=8, key=self._key).digest()
        rank = int.from_bytes(digest, "big")
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
