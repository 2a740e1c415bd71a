"""The likelihood of masked tokens: the held-out evaluation of masked language models.

Bits per byte are not defined: the probability of a token given both sides is not a factor of the
probability of the text. Perplexities are comparable between cells with the same vocabulary, since
these have the same masks.
"""

from collections.abc import Sequence

import numpy as np
import torch
from transformers import DataCollatorForLanguageModeling, PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.inference.batch_sizes import run_batches, scoring_tokens
from lexigraft.inference.chunked_logits import IGNORED, chunked_logits, sum_nll
from lexigraft.inference.likelihood import WINDOW, Likelihood, pad_batch
from lexigraft.inference.text_encoding import encode
from lexigraft.randomness import seed_from
from lexigraft.source.positions import positions_of

MASKED_SHARE = 0.15  # as in BERT, RoBERTa and CW2V (Appendix G)


def score_masked(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[str],
    *,
    batch_tokens: int | None = None,
) -> Likelihood:
    """Mask 15 % of the tokens of texts, always the same ones, and score their prediction.

    Each text is scored separately; a text longer than the model's context is split into windows.
    The masked language model may be on any device, in any dtype; log-probabilities are float32.
    `batch_tokens` is the maximum tokens of a forward pass, including padding; a single text may
    have more. By default, as many tokens are processed as fit (`batch_sizes`).

    Raises a UserError if no token was drawn because the texts have almost no tokens.
    """
    size = min(WINDOW, positions_of(model) or WINDOW)
    masker = Masker(tokenizer)
    windows = [  # inputs and labels of each window
        masker(np.array(ids[begin : begin + size]), seed_from("held-out", number, begin))
        for number, ids in enumerate(encode(tokenizer, texts))
        for begin in range(0, len(ids), size)
    ]
    tokens = sum(int((labels != IGNORED).sum()) for _, labels in windows)
    if not tokens:
        raise UserError(
            f"held-out text: no token of {len(texts)} sentences was masked; raise curve.sentences, "
            "or provide more text"
        )

    def length(window: tuple[np.ndarray, np.ndarray]) -> int:
        return len(window[0])

    def score(batch: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
        padded = pad_batch(*zip(*batch, strict=True))
        inputs = {name: tensor.to(model.device) for name, tensor in padded.items()}
        labels = inputs.pop("labels")
        return sum_nll(chunked_logits(model, inputs), labels).item()

    windows.sort(key=length)
    max_tokens = scoring_tokens(model, length(windows[-1]), batch_tokens)
    was_training = model.training
    model.eval()
    with torch.no_grad():
        batches = run_batches(windows, length, score, max_tokens=max_tokens)
        nats = sum(batch_nats for _, batch_nats in batches)
    model.train(was_training)
    return Likelihood(nats, tokens)


class Masker:
    """Draws tokens to predict: 80 % become `<mask>`, 10 % a random token, 10 % stay the same.

    (Devlin et al. 2019, §3.1; transformers' data collator draws them.) Each token is drawn with
    probability `share`; special tokens are never drawn. Raises a UserError if the tokenizer has no
    mask token.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, share: float = MASKED_SHARE):
        if tokenizer.mask_token is None:
            raise UserError(
                "objective: mlm needs a tokenizer with a mask token; choose a vocabulary made for "
                "an encoder, or objective clm for a causal model"
            )
        self._collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=share)
        self._special = np.array(sorted(set(tokenizer.all_special_ids)))

    def __call__(
        self, tokens: np.ndarray, seed: int, targets: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The model's input and the tokens to predict, IGNORED elsewhere; both [n] int64.

        `tokens` [n] include special ones; the same seed masks the same tokens. `targets` [n] bool
        says which tokens may be drawn; with None, all may.
        """
        fixed = np.isin(tokens, self._special)
        if targets is not None:
            fixed |= ~targets
        self._collator.generator = torch.Generator().manual_seed(seed)
        inputs, labels = self._collator.torch_mask_tokens(
            torch.from_numpy(tokens.astype(np.int64))[None],
            special_tokens_mask=torch.from_numpy(fixed)[None],
        )
        return inputs[0].numpy(), labels[0].numpy()
