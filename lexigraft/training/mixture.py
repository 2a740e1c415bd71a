"""Several texts as one: who gives how many sequences, and how they take turns."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from lexigraft.randomness import generator
from lexigraft.training.data import Sequence as TokenSequence
from lexigraft.training.data import Text


class Joined:
    """Texts one after the other, numbered through."""

    def __init__(self, texts: Sequence[Text]):
        self.texts = list(texts)
        self._ends = list(accumulate(len(text) for text in self.texts))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> TokenSequence:
        if not 0 <= index < len(self):
            raise IndexError(index)
        which = bisect_right(self._ends, index)
        return self.texts[which][index - (self._ends[which] - len(self.texts[which]))]

    def places(self, which: int, order: np.ndarray) -> np.ndarray:
        """Numbers in the whole of the sequences `order` [n] of one of the texts."""
        return order + self._ends[which] - len(self.texts[which])


def counts_for(first: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Sequences that each text but the first gives, so that the first one's `first` are its share.

    Parameters
    ----------
    first
        Sequences of the first text.
    shares
        Name -> share of the sequences, the first text first; they add up to one.

    Returns
    -------
    dict
        At least one sequence of each.
    """
    own, *_ = shares.values()
    others = list(shares.items())[1:]
    return {name: max(1, round(first * share / own)) for name, share in others}


def more_of(sequences: int, count: int, seed: list[Any]) -> np.ndarray:
    """`count` numbers below `sequences`, pass after pass, each in an order of its own, [count]."""
    passes = [
        generator(*seed, "order", number).permutation(sequences)
        for number in range(-(-count // sequences))
    ]
    return np.concatenate(passes)[:count]


def mixed(orders: Sequence[np.ndarray]) -> np.ndarray:
    """One order out of several, each spread evenly over the whole, [sum of their lengths].

    Every stretch holds each of them in its share, to within one: no step of training is without a
    text by chance, and a schedule treats all texts alike.
    """
    when = np.concatenate([(np.arange(len(order)) + 0.5) / len(order) for order in orders])
    return np.concatenate(orders)[np.argsort(when, kind="stable")]
