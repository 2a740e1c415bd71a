"""Processes the common prefix of prompts, such as instruction and examples, only once."""

import copy
from collections import Counter
from dataclasses import dataclass
from os.path import commonprefix

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

# Shorter prefixes save nothing: a prefix of 8 tokens costs 4 % more (benchmarks/generation.py).
MIN_TOKENS = 32
# Prompts are grouped by this many first tokens, which reach into the first example.
_GROUP_TOKENS = 64


@dataclass(frozen=True)
class SharedPrefix:
    """The tokens that several prompts begin with, and their key-value cache."""

    token_ids: list[int]
    cache: DynamicCache  # keys and values in every layer, for a batch of one

    def repeat(self, rows: int) -> DynamicCache:
        """A copy of the cache for a batch of `rows` rows."""
        cache = copy.deepcopy(self.cache)
        cache.batch_repeat_interleave(rows)
        return cache


def group_by_prefix(prompts: dict[str, list[int]], min_prompts: int) -> list[list[str]]:
    """Group the ids of prompts (token ids) that begin with the same tokens, in the same order.

    A task may have prompts in several languages, or fewer examples in long prompts. Groups of fewer
    than `min_prompts` prompts are combined.
    """
    beginnings = {name: tuple(ids[:_GROUP_TOKENS]) for name, ids in prompts.items()}
    counts = Counter(beginnings.values())
    groups: dict[tuple[int, ...] | None, list[str]] = {}
    for name, beginning in beginnings.items():
        key = beginning if counts[beginning] >= min_prompts else None
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def shared_prefix(
    model: PreTrainedModel, prompts: list[list[int]], max_new_tokens: int
) -> SharedPrefix | None:
    """Process the common prefix of all prompts; None if it would save nothing.

    At least one token of every prompt is not part of the prefix. The result is also None if the
    model has layers that do not cache every token: recurrent ones, and attention windows shorter
    than the texts, which the padding after the prefix would fill.
    """
    if len(prompts) < 2:
        return None
    common = commonprefix(prompts)  # noqa: RUF071  # these are no paths
    token_ids = list(common)[: min(map(len, prompts)) - 1]
    if len(token_ids) < MIN_TOKENS:
        return None
    width = max(map(len, prompts)) + max_new_tokens
    cache = DynamicCache(config=model.config)
    for layer in cache.layers:
        if type(layer) is DynamicSlidingWindowLayer and width < layer.sliding_window:
            continue
        if type(layer) is not DynamicLayer:
            return None
    with torch.inference_mode():
        # The base model: the logits of a long prefix would be large and are not needed.
        model.base_model(
            input_ids=torch.tensor([token_ids], device=model.device),
            past_key_values=cache,
            use_cache=True,
        )
    return SharedPrefix(token_ids, cache)
