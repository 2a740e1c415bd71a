"""Compare the most likely next tokens of a source model and a cell after the same source tokens."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.inference.batch_sizes import run_batches, texts_with_logits
from lexigraft.inference.generation import continue_greedily, end_tokens, padding_token
from lexigraft.inference.likelihood import pad_batch


class PromptAgreement(NamedTuple):
    """Next tokens after the prefixes of a prompt and of its continuation by the source model."""

    same: bool  # whether the cell generates the same continuation
    prefixes: int  # number of compared prefixes, of which:
    changed: int  # number after which the most likely token differs
    new: int  # number after which it is a new token


def compare_next_tokens(
    source: tuple[PreTrainedModel, PreTrainedTokenizerFast],
    model: PreTrainedModel,
    prompts: list[list[int]],
    *,
    is_new: np.ndarray,
    max_new_tokens: int,
    batch_size: int | None,
) -> list[PromptAgreement]:
    """Continue each prompt with the source model, and compare both models on the whole text.

    `is_new` [n_target] marks the tokens that the source does not have. A new token with the same
    output row, and bias, as the choice of the source ties with it.
    """
    source_model, _ = source
    new = torch.from_numpy(is_new).to(model.device)
    head = model.get_output_embeddings()

    def compare(batch: Sequence[list[int]]) -> list[PromptAgreement]:
        continuations = continue_texts(*source, list(batch), max_new_tokens)
        texts = [prompt + row for prompt, row in zip(batch, continuations, strict=True)]
        # Padding is after the text, where no prefix attends to it.
        padded = pad_batch(texts, texts)
        inputs = {name: padded[name].to(model.device) for name in ("input_ids", "attention_mask")}
        with torch.no_grad():
            all_source_choices = source_model(**inputs, use_cache=False).logits.argmax(dim=-1)
            all_choices = model(**inputs, use_cache=False).logits.argmax(dim=-1)
        comparisons = []
        for prompt, ids, source_choices, choices in zip(
            batch, texts, all_source_choices, all_choices, strict=True
        ):
            # No prediction is needed after the last token.
            source_choices, choices = source_choices[: len(ids) - 1], choices[: len(ids) - 1]
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

    longest = max(map(len, prompts)) + max_new_tokens
    max_texts = texts_with_logits(model, longest, batch_size)
    batches = run_batches(prompts, len, compare, max_tokens=math.inf, max_items=max_texts)
    return [agreement for _, compared in batches for agreement in compared]


def continue_texts(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    prompts: list[list[int]],
    max_new_tokens: int,
) -> list[list[int]]:
    """The greedy continuation of each prompt, up to and including the token that ends a text."""
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
