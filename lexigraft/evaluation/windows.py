"""How likely a text is in windows of tokens across its sentences, as in Yamaguchi et al."""

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from lexigraft.inference.chunked_logits import IGNORED, chunked_logits, nll_per_token, targets_ahead
from lexigraft.inference.likelihood import Likelihood, likelihood_from_nats
from lexigraft.inference.text_encoding import encode

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

NOT_SCORED = -1  # in place of the number of a token's text


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
        The texts; other adjacent texts give other likelihoods.
    window
        Tokens in a window, at least 2.
    batch_tokens
        Tokens in one forward pass; at least one window.

    Returns
    -------
    Likelihood
        Totals over the texts; `nats` is not finite if the model's weights are not.
    """
    # Arrays, not lists: eight bytes a token instead of eighty, of tens of millions.
    ids, owners = array("i"), array("i")
    counts = []
    for number, text in enumerate(encode(tokenizer, texts)):
        ids.extend(text)
        owners.extend([NOT_SCORED] + [number] * (len(text) - 1))
        counts.append(len(text) - 1)
    tokens = torch.frombuffer(ids, dtype=torch.int32)
    texts_of = torch.frombuffer(owners, dtype=torch.int32)
    was_training = model.training
    model.eval()
    nats = torch.zeros(len(texts), dtype=torch.float64)
    with torch.no_grad():
        for batch in _batches(len(ids), window, max(batch_tokens // window, 1)):
            rows, numbers = (
                torch.stack([values[at : at + size] for at, size in batch])
                for values in (tokens, texts_of)
            )
            own = _score(model, rows.long().to(model.device), numbers.to(model.device) >= 0)
            scored = numbers[:, 1:] >= 0
            nats.index_add_(0, numbers[:, 1:][scored].long(), own[:, :-1][scored])
    model.train(was_training)
    return likelihood_from_nats(texts, nats.tolist(), counts)


def _batches(total: int, window: int, rows: int) -> Iterator[list[tuple[int, int]]]:
    """Beginnings and lengths of windows of equal length; only the last one may be shorter."""
    windows = [(at, min(window, total - at)) for at in range(0, total - 1, window - 1)]
    whole = len(windows) - (windows[-1][1] < window)
    for first in range(0, whole, rows):
        yield windows[first : min(first + rows, whole)]
    if whole < len(windows):
        yield windows[whole:]


def _score(model: "PreTrainedModel", rows: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Nats [windows, tokens] of what follows each token in its row, of the `wanted` ones alone."""
    targets = targets_ahead(rows.masked_fill(~wanted, IGNORED), 1)
    readout = chunked_logits(model, {"input_ids": rows, "use_cache": False})
    return nll_per_token(readout, targets).cpu().double()
