"""Tokenization of a corpus in batches."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from tqdm import tqdm

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_SENTENCES_AT_ONCE = 1000


def encoded_batches(
    tokenizer: "PreTrainedTokenizerFast", corpus: Iterable[str]
) -> Iterator[list[list[int]]]:
    """Yield batches of the sentences' token ids, with a progress bar.

    No special tokens are added; those in the text itself are kept.
    """
    sentences = iter(tqdm(corpus, desc="tokenize", unit=" sentences", disable=None))
    while texts := list(islice(sentences, _SENTENCES_AT_ONCE)):
        yield tokenizer(
            texts, add_special_tokens=False, return_attention_mask=False, verbose=False
        )["input_ids"]
