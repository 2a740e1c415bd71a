"""Compares the tokens that may begin a text by the likelihood of English texts after each."""

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.setting_types import CAUSAL
from lexigraft.source.document_start import (
    DOCUMENT_START,
    beginning_ids,
    candidates,
    document_start,
    surrounding,
)
from lexigraft.source.model import load_config, load_model, model_kind
from lexigraft.source.positions import context_length

logger = logging.getLogger(__name__)

_CANDIDATES = 4  # tokens that are compared by measurement
_LONGEST_START = 8  # tokens
_IGNORED = -100
_LARGEST = 1_000_000_000  # parameters of a model that a processor scores in seconds
# Texts for this comparison: short, since the first token matters most at the beginning.
_ENGLISH = (
    "The ferry leaves at half past six, so we should be at the harbour before it gets dark.",
    "Bread dough needs warmth and time, and it rises faster with a little sugar in the yeast.",
    "The committee will publish the results of its inquiry in the second week of November.",
    "She put the letters into a box, closed the lid and carried it up to the attic.",
)


def compare_starts(
    folder: str | Path,
    tokenizer: PreTrainedTokenizerFast,
    source: str,
    *,
    parameters: int,
    rows: int,
) -> dict[str, Any]:
    """Facts for a source's card: the token that begins texts, and what measurements say about it.

    `document_start_bits_per_byte` are those of a few English texts after each token that may begin
    a text, and after none (the empty string). The first token of a text is not counted, since
    without a token before it, it cannot be predicted. If the model is not measured,
    `document_start_not_measured` says why: sources are prepared where Snakemake runs, which may be
    the login node of a cluster. Logs a warning if another token is better by at least 1 %.
    """
    facts: dict[str, Any] = {DOCUMENT_START: (chosen := document_start(tokenizer))}
    texts = [
        tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] for text in _ENGLISH
    ]
    config, free = load_config(folder), psutil.virtual_memory().available
    positions = context_length(config)
    if model_kind(config) != CAUSAL:
        reason = "it is not a causal model"
    elif parameters > _LARGEST:
        reason = f"it has more than {_LARGEST / 1e9:g} billion parameters"
    elif 8 * parameters > free:  # 4 bytes per parameter, and as much for everything else
        reason = f"this machine has {free / 1e9:.1f} GB of free memory"
    elif positions is not None and max(map(len, texts)) + _LONGEST_START > positions:
        reason = f"its {positions} positions are too few"
    else:
        model = load_model(folder, torch.float32, torch.device("cpu"))
        vocabulary = tokenizer.get_vocab()
        starts = {chosen: beginning_ids(tokenizer)}
        for token in candidates(tokenizer):
            if vocabulary[token] < rows and len(starts) < _CANDIDATES:
                starts.setdefault(token, [vocabulary[token]])
        starts |= {"": []}
        measured = {token: _bits_per_byte(model, start, texts) for token, start in starts.items()}
        _warn(source, measured, chosen, bool(surrounding(tokenizer)[0]))
        return facts | {f"{DOCUMENT_START}_bits_per_byte": measured}
    return facts | {f"{DOCUMENT_START}_not_measured": reason}


def _bits_per_byte(
    model: PreTrainedModel, start: list[int], texts: Sequence[list[int]]
) -> float | None:
    """Of texts without their first tokens; None if the model's weights are not finite."""
    rows = [torch.tensor([*start, *ids]) for ids in texts]
    targets = [torch.tensor([*[_IGNORED] * (len(start) + 1), *ids[1:]]) for ids in texts]
    inputs = pad_sequence(rows, batch_first=True)
    labels = pad_sequence(targets, batch_first=True, padding_value=_IGNORED)
    mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    with torch.inference_mode():
        logits = model(input_ids=inputs, attention_mask=mask, use_cache=False).logits
    nats = torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(),
        ignore_index=_IGNORED, reduction="sum",
    ).item()  # fmt: skip
    bytes_ = sum(len(text.encode()) for text in _ENGLISH)
    # Rounded, so that the card does not depend on the number of threads.
    return round(nats / math.log(2) / bytes_, 3) if math.isfinite(nats) else None


def _warn(source: str, measured: Mapping[str, float | None], chosen: str, is_added: bool) -> None:
    value_of_chosen = measured[chosen]
    finite = {token: value for token, value in measured.items() if value is not None}
    best = min(finite, key=finite.__getitem__, default=chosen)
    if value_of_chosen is not None and finite[best] < 0.99 * value_of_chosen:
        names = [f"'{token}'" if token else "no token" for token in (chosen, best)]
        advice = f"set document_start: '{best}' in the source's entry"
        if is_added:
            advice = "the tokenizer adds this token itself, so check its tokenizer.json"
        logger.warning(
            "source %s: texts begin with %s, after which English has %.3f bits per byte, but %.3f "
            "after %s; %s",
            source, names[0], value_of_chosen, finite[best], names[1], advice,
        )  # fmt: skip
