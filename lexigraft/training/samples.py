"""Prompts with their answers as training sequences; the loss counts the answers alone."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lexigraft.errors import UserError
from lexigraft.inference.text_encoding import BATCH, start_ids
from lexigraft.training.data import Sequence

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Samples:
    """The samples of one entry as a `Text`; `too_long` counts those that were left out."""

    sequences: list[Sequence]
    name: str
    too_long: int = 0

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, index: int) -> Sequence:
        return self.sequences[index]

    @classmethod
    def within(cls, length: int, sequences: list[Sequence], name: str) -> "Samples":
        """Those of at most `length` tokens.

        A longer one is left out, not cut: what is left of an answer that is cut teaches to stop in
        the middle or not at all, and a cut prompt asks for something else.

        Raises
        ------
        UserError
            None is short enough.
        """
        fitting = [sequence for sequence in sequences if len(sequence.tokens) <= length]
        if not fitting:
            shortest = min(len(sequence.tokens) for sequence in sequences)
            raise UserError(
                f"samples '{name}': the shortest of {len(sequences)} has {shortest} tokens and a "
                f"sequence of its phase {length}; raise the phase's length"
            )
        too_long = len(sequences) - len(fitting)
        if too_long:
            logger.info(
                "samples '%s': %d of %d are longer than %d tokens and left out",
                name, too_long, len(sequences), length,
            )  # fmt: skip
        return cls(fitting, name, too_long)


def encode_samples(
    tokenizer: "PreTrainedTokenizerFast", samples: Iterable[tuple[str, str]]
) -> list[Sequence]:
    """Each sample as prompt, answer and end-of-text token, of which the loss counts the latter two.

    Prompt and answer are one text to the tokenizer, begun as every training text is; a token that
    holds some of both counts as the answer's, since the prompt alone does not have it. (ALMA masks
    as many tokens as the prompt alone has, which is the same where no token holds some of both.)

    Parameters
    ----------
    tokenizer
        A fast one: it knows which characters a token stands for.
    samples
        (prompt, answer); what separates the two, such as a space, is part of the answer.

    Returns
    -------
    list of Sequence
        A tokenizer without an EOS token ends no sample with one.
    """
    start, end = start_ids(tokenizer), tokenizer.eos_token_id
    encoded = []
    for some in _batches(list(samples)):
        texts = tokenizer(
            [prompt + answer for prompt, answer in some],
            return_offsets_mapping=True,
            verbose=False,
        )
        for (prompt, _), ids, offsets in zip(
            some, texts["input_ids"], texts["offset_mapping"], strict=True
        ):
            tokens = start + ids
            # Special tokens stand for no characters: their offsets are (0, 0).
            targets = [False] * len(start) + [upto > len(prompt) for _, upto in offsets]
            if end is not None and tokens[-1] != end:
                tokens.append(end)
                targets.append(True)
            targets[-1] = True  # also an end-of-text token that the tokenizer itself appends
            encoded.append(Sequence(np.array(tokens, dtype=np.int32), np.array(targets)))
    return encoded


def _batches(samples: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    for first in range(0, len(samples), BATCH):
        yield samples[first : first + BATCH]
