"""The negative log-likelihood of texts, for perplexity and bits per byte.

Bits per byte divide by the UTF-8 bytes of the text, which do not depend on the vocabulary. They are
comparable between models with different vocabularies; perplexities per token are not.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lexigraft.inference.batch_sizes import run_batches, scoring_tokens
from lexigraft.inference.text_encoding import encode, scored_parts
from lexigraft.source.positions import positions_of

if TYPE_CHECKING:
    import torch
    from numpy.typing import ArrayLike
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

WINDOW = 2048  # maximum tokens of one text in one forward pass


@dataclass(frozen=True)
class Likelihood:
    """Total negative log-likelihood of texts in nats, with their scored tokens, bytes, characters.

    `texts` has those of each text, in order. Masked tokens have only nats and tokens.
    """

    nats: float
    tokens: int
    bytes: int = 0
    characters: int = 0
    texts: "tuple[Likelihood, ...]" = ()

    @property
    def bits_per_byte(self) -> float | None:
        """Bits per UTF-8 byte of the texts; None for masked tokens, where it is not defined."""
        return self.nats / math.log(2) / self.bytes if self.bytes else None

    @property
    def perplexity(self) -> float:
        """Perplexity per scored token of this vocabulary; infinite if it would overflow."""
        mean = self.nats / self.tokens
        return math.exp(mean) if mean < 700 else math.inf


def likelihood_from_nats(
    texts: Sequence[str], nats: Sequence[float], tokens: Sequence[int]
) -> Likelihood:
    """The likelihood of texts from the nats and the scored tokens of each."""
    each = zip(texts, nats, tokens, strict=True)
    return sum_likelihoods(
        [Likelihood(own, count, len(text.encode()), len(text)) for text, own, count in each]
    )


def sum_likelihoods(each: Sequence[Likelihood]) -> Likelihood:
    """The total likelihood of several texts, or of several sets of texts."""
    return Likelihood(
        nats=sum(one.nats for one in each),
        tokens=sum(one.tokens for one in each),
        bytes=sum(one.bytes for one in each),
        characters=sum(one.characters for one in each),
        texts=tuple(each),
    )


def score_texts(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    texts: Sequence[str],
    *,
    batch_tokens: int | None = None,
) -> Likelihood:
    """Sum the negative log-likelihood of texts, each scored separately.

    Every token of a text is predicted, the first one from the special token that begins a text (see
    `text_encoding.encode`), which is not scored itself. If texts begin without one, the first token
    of a text is not scored, and its bytes are not counted. A text longer than the model's context
    or 2,048 tokens is scored in windows that overlap by half; the overlap is context only.

    The causal language model may be on any device, in any dtype; log-probabilities are float32.
    `batch_tokens` is the maximum tokens of a forward pass, including padding; a single text may
    have more. By default, as many tokens are processed as fit (`batch_sizes`). `nats` of the result
    is not finite if the model's weights are not.
    """
    import torch

    limit = positions_of(model)
    size = min(WINDOW, limit) if limit and limit > 1 else WINDOW
    encoded = enumerate(encode(tokenizer, texts))
    windows = [window for number, ids in encoded for window in _windows(number, ids, size)]
    windows.sort(key=_length)
    max_tokens = scoring_tokens(model, max(map(_length, windows), default=1), batch_tokens)
    nats, tokens = [0.0] * len(texts), [0] * len(texts)
    was_training = model.training
    model.eval()
    with torch.no_grad():
        batches = run_batches(windows, _length, partial(_score, model), max_tokens=max_tokens)
        for batch, nats_of_windows in batches:
            for window, window_nats in zip(batch, nats_of_windows, strict=True):
                nats[window.text] += window_nats
                tokens[window.text] += len(window.ids) - window.known
    model.train(was_training)
    return likelihood_from_nats(scored_parts(tokenizer, texts), nats, tokens)


class _Window(NamedTuple):
    """Tokens of one text; the first `known` are context and not scored."""

    text: int
    ids: list[int]
    known: int


def _windows(text: int, ids: list[int], size: int) -> Iterator[_Window]:
    """A text's windows of at most `size` tokens."""
    done = 1  # the first token is context only
    while done < len(ids):
        begin = 0 if done == 1 else done - size // 2
        window = _Window(text, ids[begin : begin + size], done - begin)
        yield window
        done = begin + len(window.ids)


def _length(window: _Window) -> int:
    return len(window.ids)


def pad_batch(
    inputs: Sequence["ArrayLike"], labels: Sequence["ArrayLike"]
) -> dict[str, "torch.Tensor"]:
    """Pad rows on the right: `input_ids`, `attention_mask`, `labels`, all [rows, longest] int64.

    Labels of padding are IGNORED.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    from lexigraft.inference.chunked_logits import IGNORED

    ids, targets = (
        [torch.as_tensor(row, dtype=torch.int64) for row in rows] for rows in (inputs, labels)
    )
    return {
        "input_ids": pad_sequence(ids, batch_first=True),
        "attention_mask": pad_sequence([torch.ones_like(row) for row in ids], batch_first=True),
        "labels": pad_sequence(targets, batch_first=True, padding_value=IGNORED),
    }


def _score(model: "PreTrainedModel", batch: Sequence[_Window]) -> list[float]:
    """The nats of each window."""
    from lexigraft.inference.chunked_logits import IGNORED, chunked_logits, nll_per_token

    targets = [
        [*[IGNORED] * (window.known - 1), *window.ids[window.known :], IGNORED] for window in batch
    ]
    padded = pad_batch([window.ids for window in batch], targets)
    inputs = {name: tensor.to(model.device) for name, tensor in padded.items()}
    labels = inputs.pop("labels")
    logits = chunked_logits(model, {**inputs, "use_cache": False})
    return nll_per_token(logits, labels).cpu().double().sum(dim=1).tolist()
