"""The negative log-likelihood of texts, for perplexity and bits per byte, and of masked tokens.

Bits per byte divide by the UTF-8 bytes of the text, which do not depend on the vocabulary. They are
comparable between models with different vocabularies; perplexities per token are not. For masked
tokens, they are not defined: the probability of a token given both sides is not a factor of that of
the text. Their perplexities are comparable between cells with the same vocabulary and masks.
"""

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch.nn.utils.rnn import pad_sequence
from transformers import DataCollatorForLanguageModeling, PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.inference.batch_sizes import run_batches, scoring_tokens
from lexigraft.inference.chunked_logits import IGNORED, chunked_logits, nll_per_token, sum_nll
from lexigraft.inference.text_encoding import encode, scored_parts
from lexigraft.randomness import seed_from
from lexigraft.source.positions import positions_of

WINDOW = 2048  # maximum tokens of one text in one forward pass
MASKED_SHARE = 0.15  # as in BERT, RoBERTa and CW2V (Appendix G)


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
    n_bytes, characters = [len(text.encode()) for text in texts], [*map(len, texts)]
    each = map(Likelihood, nats, tokens, n_bytes, characters)
    return Likelihood(sum(nats), sum(tokens), sum(n_bytes), sum(characters), tuple(each))


def score_texts(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[str],
    *,
    batch_tokens: int | None = None,
) -> Likelihood:
    """Sum the negative log-likelihood of texts, each scored separately.

    Every token of a text is predicted, the first one from the special token that begins a text (see
    `text_encoding.encode`), which is not scored itself. If texts begin without one, the first token
    of a text is not scored, and its bytes are not counted. A text longer than the model's context
    or 2,048 tokens is scored in windows that overlap by half; the overlap is context only.

    Log-probabilities are float32, whatever the model's dtype. A forward pass has at most
    `batch_tokens`, including padding, or a single text; by default, as many as fit (`batch_sizes`).
    `nats` of the result is not finite if the model's weights are not.
    """
    limit = positions_of(model)
    size = min(WINDOW, limit) if limit and limit > 1 else WINDOW
    windows, tokens = [], []
    for number, ids in enumerate(encode(tokenizer, texts)):
        tokens.append(max(len(ids) - 1, 0))
        done = 1  # the first token is context only
        while done < len(ids):
            begin = 0 if done == 1 else done - size // 2
            end = min(begin + size, len(ids))
            labels = [*[IGNORED] * (done - begin - 1), *ids[done:end], IGNORED]
            windows.append(_Window(ids[begin:end], labels, [number] * (end - begin)))
            done = end
    nats = _nats_of_texts(model, windows, len(texts), batch_tokens)
    return likelihood_from_nats(scored_parts(tokenizer, texts), nats, tokens)


def score_windows(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[str],
    *,
    window: int,
    score_start: bool = False,
    batch_tokens: int | None = None,
) -> Likelihood:
    """Sum the negative log-likelihood of texts that are joined and split into windows.

    Each text begins with its special token, which is context and not scored, and all are joined in
    order. With `score_start`, it is scored too, after the previous text: in the data of Yamaguchi
    et al. it is a label like all others. A window has `window` tokens, at least 2; its first token
    is the last one of the previous window, so that every token but the very first is predicted
    once: tokens and bytes are those of `score_texts`, except for the starts.
    """
    # Arrays, not lists: nine bytes per token instead of a hundred, for tens of millions of tokens.
    token_ids, numbers, is_scored = array("i"), array("i"), array("b")
    for number, text in enumerate(encode(tokenizer, texts)):
        token_ids.extend(text)
        numbers.extend([number] * len(text))
        is_scored.extend([score_start and number > 0, *[True] * len(text)][: len(text)])
    ids, owners, scored = (np.array(values) for values in (token_ids, numbers, is_scored))
    owners_of_next = np.roll(owners, -1)
    # A position predicts the token after it, and has its nats.
    labels = np.append(np.where(scored, ids, IGNORED)[1:], IGNORED)
    windows = []
    for begin in range(0, len(ids) - 1, window - 1):
        part = slice(begin, begin + window)
        of_window = labels[part].copy()
        of_window[window - 1 :] = IGNORED  # predicted in the next window
        windows.append(_Window(ids[part], of_window, owners_of_next[part]))
    nats = _nats_of_texts(model, windows, len(texts), batch_tokens)
    tokens = np.bincount(owners, scored, minlength=len(texts)).astype(int).tolist()
    return likelihood_from_nats(scored_parts(tokenizer, texts), nats, tokens)


def score_masked(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[str],
    *,
    batch_tokens: int | None = None,
) -> Likelihood:
    """Mask 15 % of the tokens of texts, always the same ones, and score their prediction.

    A text longer than the model's context is split into windows. For the rest, see `score_texts`.
    Raises a UserError if no token was drawn because the texts have almost no tokens.
    """
    size = min(WINDOW, positions_of(model) or WINDOW)
    masker, windows = Masker(tokenizer), []
    for number, ids in enumerate(encode(tokenizer, texts)):
        for begin in range(0, len(ids), size):
            seed = seed_from("held-out", number, begin)
            inputs, labels = masker(np.array(ids[begin : begin + size]), seed)
            windows.append(_Window(inputs, labels))
    tokens = sum(int((window.labels != IGNORED).sum()) for window in windows)
    if not tokens:
        raise UserError(
            f"held-out text: no token of {len(texts)} sentences was masked; raise curve.sentences, "
            "or provide more text"
        )

    def score(inputs: dict[str, Any], labels: torch.Tensor) -> float:
        return sum_nll(chunked_logits(model, inputs), labels).item()

    return Likelihood(sum(nats for _, nats in _score(model, windows, score, batch_tokens)), tokens)


class _Window(NamedTuple):
    """Tokens, what each position predicts, and the number of the text that this belongs to."""

    ids: Any
    labels: Any
    owners: Any = ()


def _nats_of_texts(
    model: PreTrainedModel, windows: list[_Window], texts: int, batch_tokens: int | None
) -> list[float]:
    """The negative log-likelihood of each text, summed over the positions of all windows."""

    def score(inputs: dict[str, Any], labels: torch.Tensor) -> np.ndarray:
        logits = chunked_logits(model, {**inputs, "use_cache": False})
        return nll_per_token(logits, labels).cpu().double().numpy()

    nats = np.zeros(texts)
    for batch, scores in _score(model, windows, score, batch_tokens):
        for window, of_window in zip(batch, scores, strict=True):
            np.add.at(nats, np.asarray(window.owners), of_window[: len(window.ids)])
    return nats.tolist()


def _score(
    model: PreTrainedModel,
    windows: list[_Window],
    score: Callable[[dict[str, Any], torch.Tensor], Any],
    batch_tokens: int | None,
) -> Iterator[tuple[Sequence[_Window], Any]]:
    """Yield batches of windows with their `score`, computed in evaluation mode."""

    def length(window: _Window) -> int:
        return len(window.ids)

    def compute(batch: Sequence[_Window]) -> Any:
        padded = pad_batch([window.ids for window in batch], [window.labels for window in batch])
        inputs = {name: tensor.to(model.device) for name, tensor in padded.items()}
        return score(inputs, inputs.pop("labels"))

    windows.sort(key=length)
    max_tokens = scoring_tokens(model, max(map(length, windows), default=1), batch_tokens)
    was_training = model.training
    model.eval()
    with torch.no_grad():
        yield from run_batches(windows, length, compute, max_tokens=max_tokens)
    model.train(was_training)


def pad_batch(inputs: Sequence[ArrayLike], labels: Sequence[ArrayLike]) -> dict[str, torch.Tensor]:
    """Pad rows on the right: `input_ids`, `attention_mask`, `labels`, all [rows, longest] int64.

    Labels of padding are IGNORED.
    """
    ids, targets = (
        [torch.as_tensor(row, dtype=torch.int64) for row in rows] for rows in (inputs, labels)
    )
    return {
        "input_ids": pad_sequence(ids, batch_first=True),
        "attention_mask": pad_sequence([torch.ones_like(row) for row in ids], batch_first=True),
        "labels": pad_sequence(targets, batch_first=True, padding_value=IGNORED),
    }


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
