"""Score joined texts in windows of a fixed number of tokens, as Yamaguchi et al. do."""

from array import array
from collections.abc import Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.inference.batch_sizes import run_batches, scoring_tokens
from lexigraft.inference.chunked_logits import (
    IGNORED,
    chunked_logits,
    nll_per_token,
    targets_ahead,
)
from lexigraft.inference.likelihood import Likelihood, likelihood_from_nats
from lexigraft.inference.text_encoding import encode, scored_parts


def score_windows(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[str],
    *,
    window: int,
    batch_tokens: int | None = None,
) -> Likelihood:
    """Sum the negative log-likelihood of texts that are joined and split into windows.

    Each text begins with its special token, which is context and not scored, and all are joined in
    order. A window has `window` tokens, at least 2; its first token is the last one of the previous
    window, so that every token but the very first is predicted once: tokens and bytes are those of
    `score_texts`. `batch_tokens` is the maximum number of tokens in one forward pass, by default as
    many as fit. Log-probabilities are float32; `nats` is not finite if the model's weights are not.
    """
    # Arrays, not lists: eight bytes per token instead of eighty, for tens of millions of tokens.
    ids, owners = array("i"), array("i")  # owners: the index of a token's text, -1: not scored
    counts = []
    for number, text in enumerate(encode(tokenizer, texts)):
        ids.extend(text)
        owners.extend([-1, *[number] * len(text)][: len(text)])
        counts.append(max(len(text) - 1, 0))
    streams = torch.stack([torch.frombuffer(values, dtype=torch.int32) for values in (ids, owners)])
    window = min(window, len(ids))
    last = streams[:, (len(ids) - 1) // (window - 1) * (window - 1) :]
    # All windows have the same length, except the last, which has no padding either.
    groups = [streams.unfold(1, window, window - 1).unbind(1), (last,) if last.shape[1] > 1 else ()]
    max_tokens = scoring_tokens(model, window, batch_tokens)

    def score(batch: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        tokens, numbers = torch.stack(list(batch), dim=1)  # [windows, window]
        inputs = tokens.long().to(model.device)
        labels = inputs.masked_fill(numbers.to(model.device) < 0, IGNORED)
        readout = chunked_logits(model, {"input_ids": inputs, "use_cache": False})
        return numbers, nll_per_token(readout, targets_ahead(labels, 1)).cpu().double()

    nats = torch.zeros(len(texts), dtype=torch.float64)
    with torch.no_grad():
        for windows in groups:
            batches = run_batches(
                windows, lambda window: window.shape[1], score, max_tokens=max_tokens
            )
            for _, (numbers, scores) in batches:
                predicted = numbers[:, 1:]
                scored = predicted >= 0
                nats.index_add_(0, predicted[scored].long(), scores[:, :-1][scored])
    return likelihood_from_nats(scored_parts(tokenizer, texts), nats.tolist(), counts)
