"""The corpus as the target tokenizer cuts it, for methods that learn from running text."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from tqdm import tqdm

from lexigraft.vocabulary.token_bytes import special_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_SENTENCES_AT_ONCE = 1000
_MONITORED_EVERY = 20

Item = TypeVar("Item")


def encoded(tokenizer: "PreTrainedTokenizerFast", corpus: Iterable[str]) -> Iterator[np.ndarray]:
    """Yield the token ids of each sentence, int64 [n], without special tokens; none is empty."""
    special = np.array(sorted(special_ids(tokenizer)), dtype=np.int64)
    sentences = iter(tqdm(corpus, desc="tokenize", unit=" sentences", disable=None))
    while texts := list(islice(sentences, _SENTENCES_AT_ONCE)):
        found = tokenizer(
            texts, add_special_tokens=False, return_attention_mask=False, verbose=False
        )["input_ids"]
        for sentence in found:
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
