"""Processes a prefix that prompts share, such as instruction and examples, only once."""

import copy
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import DynamicCache, PreTrainedModel

# Shorter ones save nothing: a prefix of 8 tokens costs 4 % more (benchmarks/generation.py).
MIN_TOKENS = 32
# Prompts are grouped by so many tokens, which reach into the first example.
_GROUP_TOKENS = 64


@dataclass(frozen=True)
class SharedPrefix:
    """The tokens that several prompts begin with, and their key-value cache.

    Attributes
    ----------
    ids
        The tokens.
    cache
        Their keys and values in every layer, for a batch of one.
    """

    ids: list[int]
    cache: "DynamicCache"

    def repeat(self, rows: int) -> "DynamicCache":
        """A copy of the cache for a batch of so many rows."""
        cache = copy.deepcopy(self.cache)
        cache.batch_repeat_interleave(rows)
        return cache


def group_by_prefix(prompts: dict[str, list[int]], least: int) -> list[list[str]]:
    """Group prompts that begin with the same tokens, each group with its own prefix.

    A task may have prompts in several languages, or fewer examples in long prompts.

    Parameters
    ----------
    prompts
        Id -> token ids.
    least
        The fewest prompts of a group; smaller groups are combined.

    Returns
    -------
    list
        Ids of the prompts of each group, in the order of `prompts`.
    """
    begins = {name: tuple(ids[:_GROUP_TOKENS]) for name, ids in prompts.items()}
    counts = Counter(begins.values())
    groups: dict[tuple[int, ...] | None, list[str]] = {}
    for name, begin in begins.items():
        groups.setdefault(begin if counts[begin] >= least else None, []).append(name)
    return list(groups.values())


def shared_prefix(
    model: "PreTrainedModel", prompts: list[list[int]], max_new_tokens: int
) -> SharedPrefix | None:
    """Process the common prefix of all prompts.

    The prompts are compared as tokens, so the model reads the same tokens as without it. At least
    one token of every prompt is left.

    Parameters
    ----------
    prompts
        Token ids of all prompts.
    max_new_tokens
        The most tokens that are generated after each.

    Returns
    -------
    SharedPrefix or None
        None if it would save nothing, or if the model has layers that do not cache every token:
        recurrent ones, and attention windows shorter than the texts, which padding between prefix
        and rest would fill.
    """
    import torch

    ids = _common_prefix(prompts)
    if len(prompts) < 2 or len(ids) < MIN_TOKENS:
        return None
    cache = _full_cache(model, max(map(len, prompts)) + max_new_tokens)
    if cache is None:
        return None
    with torch.inference_mode():
        # The base model: the logits of a long prefix would be large and are not needed.
        model.base_model(
            input_ids=torch.tensor([ids], device=model.device),
            past_key_values=cache,
            use_cache=True,
        )
    return SharedPrefix(ids, cache)


def _common_prefix(prompts: list[list[int]]) -> list[int]:
    """The common prefix of all prompts, at most all but the last token of the shortest."""
    # In sorted order, the first and the last have the shortest common prefix.
    first, last = min(prompts, default=[]), max(prompts, default=[])
    longest = min(map(len, prompts), default=1) - 1
    pairs = zip(first, last, strict=False)
    differ = (place for place, (one, other) in enumerate(pairs) if one != other)
    return first[: min(longest, next(differ, longest))]


def _full_cache(model: "PreTrainedModel", width: int) -> "DynamicCache | None":
    """An empty cache, if all of the model's layers cache all of `width` tokens."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    cache = DynamicCache(config=model.config)
    for layer in cache.layers:
        if type(layer) is DynamicSlidingWindowLayer and width < layer.sliding_window:
            continue
        if type(layer) is not DynamicLayer:
            return None
    return cache
