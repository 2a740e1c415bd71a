"""How well an encoder restores masked tokens: the held-out curve of masked language models.

Bits per byte are not defined: a token that is restored from both sides is no step of a code for
the text. Perplexities compare between cells with one vocabulary, for which the masks are the same.
"""

from collections.abc import Iterator
from collections.abc import Sequence as Texts
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from lexigraft.errors import UserError
from lexigraft.randomness import seed_from
from lexigraft.source.positions import positions_of
from lexigraft.training.boundaries import encode
from lexigraft.training.data import Sequence, collate
from lexigraft.training.likelihood import WINDOW, by_length, perplexity_of
from lexigraft.training.masking import Masker
from lexigraft.training.objectives.mlm import Mlm

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True)
class MaskedLikelihood:
    """Total negative log-likelihood of the masked tokens of texts, and their number."""

    nats: float
    tokens: int

    @property
    def bits_per_byte(self) -> None:
        """Not defined for masked tokens."""
        return None

    @property
    def perplexity(self) -> float:
        """Per masked token; infinite where it would overflow."""
        return perplexity_of(self.nats, self.tokens)


def score_masked(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    texts: Texts[str],
    *,
    batch_tokens: int = WINDOW,
) -> MaskedLikelihood:
    """Mask 15 % of the tokens of texts, always the same ones, and score what the model restores.

    Parameters
    ----------
    model
        A masked language model on any device, in any dtype; log-probabilities are float32.
    texts
        Each by itself; one that is longer than the model holds is cut into windows.
    batch_tokens
        Tokens in one forward pass, padding included; at least one text.

    Raises
    ------
    UserError
        No token was drawn: the texts hold next to none.
    """
    size = min(WINDOW, positions_of(model) or WINDOW)
    windows = by_length(
        _masked(tokenizer, texts, size), lambda window: len(window.tokens), batch_tokens
    )
    batches = [collate(batch) for batch in windows]
    objective = Mlm()
    tokens = sum(int(objective.count(batch)) for batch in batches)
    if not tokens:
        raise UserError(
            f"held-out text: no token of {len(texts)} sentences was masked; raise curve.sentences, "
            "or give more text"
        )
    was_training = model.training
    model.eval()
    nats = 0.0
    with torch.no_grad():
        for batch in batches:
            inputs = {name: tensor.to(model.device) for name, tensor in batch.items()}
            nats += objective.losses(model, inputs).item()
    model.train(was_training)
    return MaskedLikelihood(nats, tokens)


def _masked(
    tokenizer: "PreTrainedTokenizerFast", texts: Texts[str], size: int
) -> Iterator[Sequence]:
    """Windows of at most `size` tokens as the model reads them, with what it has to restore."""
    masker = Masker(tokenizer)
    for number, ids in enumerate(encode(tokenizer, texts)):
        for begin in range(0, len(ids), size):
            window = np.array(ids[begin : begin + size])
            read, labels = masker(window, seed_from("held-out", number, begin))
            yield Sequence(read, labels=labels)
