"""How likely a text is in windows of tokens that run across its sentences, as in paper 000."""

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from lexigraft.training.boundaries import encode
from lexigraft.training.chunked import read_out, summed_nats
from lexigraft.training.data import IGNORED, targets_ahead
from lexigraft.training.likelihood import Likelihood

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


def score_windows(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    texts: Sequence[str],
    *,
    window: int,
    batch_tokens: int,
) -> Likelihood:
    """Sum the negative log-likelihood of texts that are joined and cut into windows.

    Each text begins with a special token (see `boundaries.encode`), and all are joined in their
    order. A window is `window` tokens; its first one is the last of the window before, so that
    every token but the very first is predicted once, from what precedes it in its window. The
    special tokens are context and not scored. So tokens and bytes are those of `score_texts`, and
    only what a token is predicted from differs: earlier sentences too, but nothing at all at the
    beginning of a window.

    Parameters
    ----------
    model
        A causal language model on any device, in any dtype; log-probabilities are float32.
    texts
        The texts; other neighbours give other likelihoods.
    window
        Tokens in a window, at least 2.
    batch_tokens
        Tokens in one forward pass; at least one window.

    Returns
    -------
    Likelihood
        Totals over the texts; `nats` is not finite if the model's weights are not.
    """
    # Arrays, not lists: five bytes a token instead of forty, of tens of millions.
    ids, scored = array("i"), array("b")
    for text in encode(tokenizer, texts):
        ids.extend(text)
        scored.extend([0] + [1] * (len(text) - 1))
    tokens = torch.frombuffer(ids, dtype=torch.int32)
    counts = torch.frombuffer(scored, dtype=torch.bool)
    was_training = model.training
    model.eval()
    nats = 0.0
    with torch.no_grad():
        for batch in _batches(len(ids), window, max(batch_tokens // window, 1)):
            rows, wanted = (
                torch.stack([values[at : at + size] for at, size in batch]).to(model.device)
                for values in (tokens, counts)
            )
            nats += _score(model, rows.long(), wanted)
    model.train(was_training)
    return Likelihood(
        nats=nats,
        tokens=sum(scored),
        bytes=sum(len(text.encode("utf-8")) for text in texts),
        characters=sum(map(len, texts)),
    )


def _batches(total: int, window: int, rows: int) -> Iterator[list[tuple[int, int]]]:
    """Beginnings and lengths of windows of equal length; only the last one may be shorter."""
    windows = [(at, min(window, total - at)) for at in range(0, total - 1, window - 1)]
    whole = len(windows) - (windows[-1][1] < window)
    for first in range(0, whole, rows):
        yield windows[first : min(first + rows, whole)]
    if whole < len(windows):
        yield windows[whole:]


def _score(model: "PreTrainedModel", rows: torch.Tensor, wanted: torch.Tensor) -> float:
    """Nats of the `wanted` ones among `rows` [windows, tokens], each from what precedes it."""
    targets = targets_ahead(rows.masked_fill(~wanted, IGNORED), 1)
    readout = read_out(model, {"input_ids": rows, "use_cache": False})
    return summed_nats(readout, targets).item()
