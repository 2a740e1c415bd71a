"""Encodes texts for training and scoring: every text begins with a special token."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lexigraft.errors import UserError
from lexigraft.source.encoding import tokenizer_faults

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# Texts per call of the tokenizer, which holds about a hundred bytes per token of a call in memory:
# several gigabytes for a hundred thousand sentences that are tokenized as bytes.
BATCH = 1000


def encode(tokenizer: "PreTrainedTokenizerFast", texts: Sequence[str]) -> Iterator[list[int]]:
    """Yield the token ids of each text, with special tokens; the first token is always special.

    A tokenizer that begins a text with a special token (Llama's BOS) is used unchanged, as in
    Yamaguchi et al. Otherwise (GPT-2, SmolLM2), the end-of-text token is prepended: it separates
    the sentences of a block, and a model needs a token from which to predict the first one. Raises
    a UserError if such a tokenizer has neither EOS nor BOS.
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
            found = tokenizer.backend_tokenizer.encode_batch_fast(batch, add_special_tokens=special)
        yield from (encoding.ids for encoding in found)


def start_ids(tokenizer: "PreTrainedTokenizerFast") -> list[int]:
    """The ids that `encode` prepends to a text: none, or one special token."""
    probe = tokenizer("a", return_special_tokens_mask=True)
    if probe["special_tokens_mask"][0]:
        return []
    for token in (tokenizer.eos_token_id, tokenizer.bos_token_id):
        if token is not None:
            return [token]
    raise UserError(
        "the tokenizer has neither an EOS nor a BOS token; set eos_token in tokenizer_config.json"
    )
