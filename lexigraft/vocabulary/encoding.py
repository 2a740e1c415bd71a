"""Texts as token ids, in the memory of a batch of them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from tqdm import tqdm

from lexigraft.corpus.lines import batches
from lexigraft.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def check_corpus(corpus: Iterable[str]) -> None:
    """Raise a UserError if a corpus is one string, whose characters would be taken for texts."""
    if isinstance(corpus, str):
        raise UserError("corpus is one string; give an iterable of texts, for example its lines")


def encoded_batches(
    tokenizer: "PreTrainedTokenizerFast", texts: Iterable[str]
) -> Iterator[list[list[int]]]:
    """Yield the token ids of each text, a batch at a time, with a progress bar.

    No special tokens are added; those in the text itself are kept.
    """
    tokenizer("")  # resets the truncation and padding that its file may ask for
    encode = tokenizer.backend_tokenizer.encode_batch_fast
    for batch in batches(tqdm(texts, desc="tokenize", unit=" texts", disable=None)):
        yield [encoding.ids for encoding in encode(batch, add_special_tokens=False)]


def count_tokens(tokenizer: "PreTrainedTokenizerFast", texts: Iterable[str]) -> Counter[int]:
    """How often each token occurs in texts, by its id."""
    counts: Counter[int] = Counter()
    for batch in encoded_batches(tokenizer, texts):
        counts.update(chain.from_iterable(batch))
    return counts
