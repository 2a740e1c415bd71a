"""Encodes texts for training, scoring and generation; texts begin with the source's token."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lexigraft.source.document_start import document_start, start_ids
from lexigraft.source.encoding import tokenizer_faults

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

IGNORED = -100  # label that losses ignore, by torch's convention
# Texts per call of the tokenizer, which holds about a hundred bytes per token of a call in memory:
# several gigabytes for a hundred thousand sentences that are tokenized as bytes.
BATCH = 1000


def encode(tokenizer: "PreTrainedTokenizerFast", texts: Sequence[str]) -> Iterator[list[int]]:
    """Yield the token ids of each text with special tokens, as in pretraining.

    A text begins with the special token that the tokenizer adds (Llama's BOS), as in Yamaguchi et
    al., or with that of `start_ids`. Without either, the first token of a text is not special.
    """
    start = start_ids(tokenizer)
    for ids in tokenize(tokenizer, texts, special=True):
        yield start + ids


def tokenize(
    tokenizer: "PreTrainedTokenizerFast", texts: Sequence[str], *, special: bool = False
) -> Iterator[list[int]]:
    """Yield the ids of each text, by default without the special tokens that the tokenizer adds."""
    tokenizer("")  # resets the truncation and padding that its file may ask for
    for first in range(0, len(texts), BATCH):
        batch = list(texts[first : first + BATCH])
        # Unlike `tokenizer(batch)`, this does not compute the offsets of the tokens.
        with tokenizer_faults():
            encodings = tokenizer.backend_tokenizer.encode_batch_fast(
                batch, add_special_tokens=special
            )
        yield from (encoding.ids for encoding in encodings)


def scored_parts(tokenizer: "PreTrainedTokenizerFast", texts: Sequence[str]) -> Sequence[str]:
    """The part of each text that is scored, for its bytes and characters.

    That is all of a text that begins with a special token. Otherwise, its first token is not
    predicted, and its part begins where the second token begins.
    """
    if document_start(tokenizer):
        return texts
    offsets = tokenizer(list(texts), return_offsets_mapping=True, verbose=False)["offset_mapping"]
    return [
        text[tokens[1][0] :] if len(tokens) > 1 else ""
        for text, tokens in zip(texts, offsets, strict=True)
    ]
