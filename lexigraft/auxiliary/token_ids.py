"""A corpus as ids of tokens on disk, sentence after sentence, for what reads it more than once."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lexigraft.vocabulary.token_bytes import special_ids
from lexigraft.vocabulary.tokenization import encoded_batches

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

END_OF_SENTENCE = -1


def write_ids(
    tokenizer: "PreTrainedTokenizerFast", corpus: Iterable[str], file: str | Path
) -> np.ndarray:
    """Tokenize a corpus into a file of int32 ids, in memory of a bounded size.

    Each sentence ends in `END_OF_SENTENCE`; special tokens are left out.

    Returns
    -------
    ndarray of int64
        [largest id + 1], how often each token was written.
    """
    size = max(tokenizer.get_vocab().values()) + 1
    ordinary = np.ones(size, dtype=bool)
    ordinary[list(special_ids(tokenizer))] = False
    counts = np.zeros(size, dtype=np.int64)
    with Path(file).open("wb") as out:
        for encoded in encoded_batches(tokenizer, corpus):
            joined = [i for sentence in encoded for i in (*sentence, END_OF_SENTENCE)]
            ids = np.array(joined, dtype=np.int32)
            ids = ids[(ids == END_OF_SENTENCE) | ordinary[ids]]
            counts += np.bincount(ids[ids != END_OF_SENTENCE], minlength=size)
            ids.tofile(out)
    return counts


def read_ids(file: str | Path) -> np.ndarray:
    """The ids that `write_ids` wrote, int32, mapped into memory: read from disk where used."""
    if not Path(file).stat().st_size:
        return np.empty(0, dtype=np.int32)
    return np.asarray(np.memmap(file, dtype=np.int32, mode="r"))
