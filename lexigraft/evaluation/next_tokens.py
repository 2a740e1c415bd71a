"""Compare the most likely next tokens of a source model and a cell after the same source tokens."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.inference.batch_sizes import run_batches, texts_with_logits
from lexigraft.inference.generation import continue_greedily, decode, end_tokens, padding_token
from lexigraft.inference.likelihood import pad_batch

ModelAndTokenizer = tuple[PreTrainedModel, PreTrainedTokenizerFast]


class PromptAgreement(NamedTuple):
    """Next tokens after the prefixes of a prompt and of its continuation by the source model."""

    same: bool  # whether the cell generates the same continuation
    prefixes: int  # number of compared prefixes, of which:
    changed: int  # number after which the most likely token differs
    new: int  # number after which it is a new token


def compare_next_tokens(
    source: ModelAndTokenizer,
    model: PreTrainedModel,
    prompts: list[list[int]],
    *,
    is_new: np.ndarray,
    max_new_tokens: int,
    batch_size: int | None,
) -> list[PromptAgreement]:
    """Continue each prompt with the source model, and compare both models on the whole text.

    `is_new` [n_target] marks the tokens that the source does not have.
    """
    new = torch.from_numpy(is_new).to(model.device)

    def compare(batch: Sequence[list[int]]) -> list[PromptAgreement]:
        continuations = _continue(source, list(batch), max_new_tokens)
        return _compare(source[0], model, list(batch), continuations, new)

    longest = max(map(len, prompts)) + max_new_tokens
    max_texts = texts_with_logits(model, longest, batch_size)
    comparisons: list[PromptAgreement] = []
    batches = run_batches(prompts, len, compare, max_tokens=math.inf, max_items=max_texts)
    for _, compared in batches:
        comparisons += compared
    return comparisons


def changed_continuations(
    source: ModelAndTokenizer,
    cell: ModelAndTokenizer,
    prompts: list[list[int]],
    max_new_tokens: int,
) -> list[dict[str, str]]:
    """Each prompt, and its continuations by the source model and by the cell, as text."""
    if not prompts:
        return []
    columns = {"prompt": decode(source[1], prompts)}
    for name, opened in (("source", source), ("cell", cell)):
        columns[name] = decode(opened[1], _continue(opened, prompts, max_new_tokens))
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _continue(
    opened: ModelAndTokenizer, prompts: list[list[int]], max_new_tokens: int
) -> list[list[int]]:
    """The greedy continuation of each prompt, up to and including the token that ends a text."""
    model, tokenizer = opened
    ends = end_tokens(model, tokenizer)
    rows = continue_greedily(
        model,
        prompts,
        padding=padding_token(tokenizer),
        stop_tokens=sorted(ends),
        max_new_tokens=max_new_tokens,
    ).tolist()
    stops = [next((i for i, token in enumerate(row) if token in ends), len(row)) for row in rows]
    return [row[: stop + 1] for row, stop in zip(rows, stops, strict=True)]


def _compare(
    source: Any,
    model: Any,
    prompts: list[list[int]],
    continuations: list[list[int]],
    new: torch.Tensor,
) -> list[PromptAgreement]:
    """Compare the most likely tokens after every prefix of each prompt and its continuation."""
    texts = [prompt + row for prompt, row in zip(prompts, continuations, strict=True)]
    # Padding is after the text, where no prefix attends to it.
    padded = pad_batch(texts, texts)
    inputs = {name: padded[name].to(model.device) for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        all_source_choices = source(**inputs, use_cache=False).logits.argmax(dim=-1)
        all_choices = model(**inputs, use_cache=False).logits.argmax(dim=-1)
    head = model.get_output_embeddings()
    comparisons = []
    for prompt, ids, source_choices, choices in zip(
        prompts, texts, all_source_choices, all_choices, strict=True
    ):
        # No prediction is needed after the last token.
        source_choices, choices = source_choices[: len(ids) - 1], choices[: len(ids) - 1]
        # A new token with the same output row, and bias, ties with the choice of the source.
        ties = (head.weight[source_choices] == head.weight[choices]).all(dim=1)
        if head.bias is not None:
            ties &= head.bias[source_choices] == head.bias[choices]
        differs = (source_choices != choices) & ~ties
        comparisons.append(
            PromptAgreement(
                same=not differs[len(prompt) - 1 :].any(),
                prefixes=len(choices),
                changed=int(differs.sum()),
                new=int((differs & new[choices]).sum()),
            )
        )
    return comparisons
