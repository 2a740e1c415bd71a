"""What many prompts begin with is read once: an instruction and examples, before the text."""

import copy
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import DynamicCache, PreTrainedModel

# Shorter ones save nothing: to read 8 tokens apart costs 4 % more (benchmarks/generation.py).
MIN_TOKENS = 32
# Prompts are of one kind if so many tokens are the same: by then they are in the first example.
_GROUP_TOKENS = 64


@dataclass(frozen=True)
class SharedPrefix:
    """The tokens that several prompts begin with, and what the model keeps of reading them.

    Attributes
    ----------
    ids
        The tokens.
    cache
        Their keys and values in every layer, of a batch of one.
    """

    ids: list[int]
    cache: "DynamicCache"

    def repeat(self, rows: int) -> "DynamicCache":
        """A copy of the cache for a batch of so many rows, to be written on."""
        own = copy.deepcopy(self.cache)
        own.batch_repeat_interleave(rows)
        return own


def group_by_prefix(prompts: dict[str, list[int]], least: int) -> list[list[str]]:
    """Groups of prompts that begin in the same way, each to have a prefix of its own.

    A task may ask in several languages, or leave out examples where a prompt would be too long.

    Parameters
    ----------
    prompts
        Id -> token ids.
    least
        Prompts in a group at the least; those of smaller ones are one group together.

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
    """Read what all prompts begin with, so that each of them need only read on from there.

    The prompts are compared as tokens, so what is read is what would be read without it. At least
    one token of every prompt is left over.

    Parameters
    ----------
    prompts
        Token ids of all prompts that are to share it.
    max_new_tokens
        Tokens that are generated after each, at most.

    Returns
    -------
    SharedPrefix or None
        None where it would save nothing, or where the model has layers that do not keep every
        token: recurrent ones, and windows of attention that are shorter than the texts. Padding
        between prefix and rest would take up room in them.
    """
    import torch

    ids = _common_prefix(prompts)
    if len(prompts) < 2 or len(ids) < MIN_TOKENS:
        return None
    cache = _full_cache(model, max(map(len, prompts)) + max_new_tokens)
    if cache is None:
        return None
    with torch.inference_mode():
        # The base model: the logits of a long prefix would be large, and nothing needs them.
        model.base_model(
            input_ids=torch.tensor([ids], device=model.device),
            past_key_values=cache,
            use_cache=True,
        )
    return SharedPrefix(ids, cache)


def _common_prefix(prompts: list[list[int]]) -> list[int]:
    """What all prompts begin with, but for the last token of the shortest."""
    # In alphabetical order no two are further apart than the first and the last.
    first, last = min(prompts, default=[]), max(prompts, default=[])
    longest = min(map(len, prompts), default=1) - 1
    pairs = zip(first, last, strict=False)
    differ = (place for place, (one, other) in enumerate(pairs) if one != other)
    return first[: min(longest, next(differ, longest))]


def _full_cache(model: "PreTrainedModel", width: int) -> "DynamicCache | None":
    """An empty cache, if all of the model's layers keep texts of `width` tokens whole."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    cache = DynamicCache(config=model.config)
    for layer in cache.layers:
        if type(layer) is DynamicSlidingWindowLayer and width < layer.sliding_window:
            continue
        if type(layer) is not DynamicLayer:
            return None
    return cache
