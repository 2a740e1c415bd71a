"""Encode texts as token ids, one batch in memory at a time."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from tqdm import tqdm

from lexigraft.errors import UserError, first_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# Limits of a batch. A tokenizer needs about a hundred bytes per token of a batch.
_TEXTS_AT_ONCE, _CHARACTERS_AT_ONCE = 1000, 1_000_000


def check_corpus(corpus: Iterable[str]) -> None:
    """Raise a UserError if a corpus is a string, whose characters would be read as texts."""
    if isinstance(corpus, str):
        raise UserError("corpus is one string; give an iterable of texts, for example its lines")


def encoded_batches(
    tokenizer: "PreTrainedTokenizerFast", texts: Iterable[str]
) -> Iterator[list[list[int]]]:
    """Yield the token ids of each text, one batch at a time, with a progress bar.

    No special tokens are added; those in the text itself are kept.
    """
    encode = encoder(tokenizer)
    for batch in batches(tqdm(texts, desc="tokenize", unit=" texts", disable=None)):
        yield encode(batch)


def count_tokens(tokenizer: "PreTrainedTokenizerFast", texts: Iterable[str]) -> Counter[int]:
    """Count the occurrences of each token id in texts."""
    counts: Counter[int] = Counter()
    for batch in encoded_batches(tokenizer, texts):
        counts.update(chain.from_iterable(batch))
    return counts


@contextmanager
def tokenizer_faults() -> Iterator[None]:
    """Raise an error of the tokenizers library on a text as a UserError.

    The regular expression engine may give up on a pattern, which is a panic and no `Exception`. A
    model without an unknown token may have no token for a character.
    """
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise UserError(
            f"the tokenizer fails on a text ({first_line(error)}); use another tokenizer, or "
            "remove such texts (long runs of one kind of character, characters without a token)"
        ) from None


def encoder(tokenizer: "PreTrainedTokenizerFast") -> Callable[[list[str]], list[list[int]]]:
    """A function that encodes a list of texts as token ids, without adding special tokens."""
    tokenizer("")  # resets truncation and padding that its file may enable
    backend = tokenizer.backend_tokenizer

    def encode(texts: list[str]) -> list[list[int]]:
        with tokenizer_faults():
            encodings = backend.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    return encode


def batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Split texts into lists that are tokenized at once: a thousand, or fewer if they are long."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        batch.append(text)
        characters += len(text)
        if len(batch) == _TEXTS_AT_ONCE or characters >= _CHARACTERS_AT_ONCE:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
