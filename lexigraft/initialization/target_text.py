"""The corpus as the target tokenizer cuts it, for methods that learn from running text."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from lexigraft.vocabulary.token_bytes import special_ids
from lexigraft.vocabulary.tokenization import encoded_batches

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_MONITORED_EVERY = 20

Item = TypeVar("Item")


def encoded(tokenizer: "PreTrainedTokenizerFast", corpus: Iterable[str]) -> Iterator[np.ndarray]:
    """Yield the token ids of each sentence, int64 [n], without special tokens; none is empty."""
    special = np.array(sorted(special_ids(tokenizer)), dtype=np.int64)
    for batch in encoded_batches(tokenizer, corpus):
        for sentence in batch:
            ids = np.array(sentence, dtype=np.int64)
            ids = ids[~np.isin(ids, special)]
            if len(ids):
                yield ids


def monitored_apart(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """What is learned from, and every twentieth item, on which the loss is watched.

    Fewer than twenty are too few to part with any: then both are all of them.
    """
    if len(items) < _MONITORED_EVERY:
        return list(items), list(items)
    watched = slice(_MONITORED_EVERY - 1, None, _MONITORED_EVERY)
    learned = [item for i, item in enumerate(items, 1) if i % _MONITORED_EVERY]
    return learned, list(items[watched])
