"""Batch sizes: as much as fits into the free memory of a GPU.

A size is estimated, and reduced when a batch does not fit. Sizes change results only by rounding,
so they are not part of a job's digest. On CPUs, whose memory is not estimated, they are fixed.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from transformers import PreTrainedModel

from lexigraft.machine import setting

Item = TypeVar("Item")
Result = TypeVar("Result")
logger = logging.getLogger(__name__)

# Of the free memory; the rest is for fragmentation and what is not estimated.
INFERENCE_MEMORY_SHARE = 0.8
# Larger batches are hardly faster, and an interruption costs more.
_PROMPTS = {"cpu": 8, "cuda": 128}
_SCORED_TOKENS = {"cpu": 2048, "cuda": 2**15}


def free_memory(device: torch.device) -> int:
    """The bytes that this process can still allocate on a GPU."""
    free, total = torch.cuda.mem_get_info(device)
    reserved = torch.cuda.memory_reserved(device)
    # Unlike the others, this function does not accept a device without an index.
    fraction = torch.cuda.get_per_process_memory_fraction(device.index)
    allowed = int(total * fraction) - reserved
    return min(free, allowed) + reserved - torch.cuda.memory_allocated(device)


def default_prompts(model: Any) -> int:
    """The default number of prompts of a batch."""
    return _PROMPTS[model.device.type]


# In the following functions, `longest` is the number of tokens of the longest text of all batches,
# with its continuation, and `most` replaces a default maximum.


def generation_limits(
    model: PreTrainedModel, longest: int, most: int | None = None
) -> tuple[float, float]:
    """The maximum tokens of a batch, including padding and new tokens, and its maximum prompts."""
    if batch_tokens := setting("batch_tokens"):
        return batch_tokens, most or math.inf
    return _fitting_tokens(model, longest, cached=True), most or default_prompts(model)


def scoring_tokens(model: PreTrainedModel, longest: int, most: int | None = None) -> float:
    """The maximum tokens of a batch without a cache, including padding."""
    most = most or _SCORED_TOKENS[model.device.type]
    return setting("batch_tokens") or min(most, _fitting_tokens(model, longest))


def texts_with_logits(model: PreTrainedModel, longest: int, most: int | None = None) -> int:
    """The maximum texts of a batch whose logits are all in memory at once; at least one."""
    tokens = setting("batch_tokens") or _fitting_tokens(model, longest, all_logits=True)
    return int(max(1, min(tokens / longest, most or default_prompts(model))))


def _fitting_tokens(model: PreTrainedModel, longest: int, **included: bool) -> float:
    """The tokens of a batch that fit into the free memory of a GPU; unlimited on a CPU."""
    if model.device.type == "cpu":
        return math.inf
    usable = INFERENCE_MEMORY_SHARE * free_memory(model.device)
    return usable / activation_bytes_per_token(model, longest, **included)


def activation_bytes_per_token(
    model: PreTrainedModel, longest: int, *, cached: bool = False, all_logits: bool = False
) -> float:
    """Estimate the memory per token of a batch in a forward pass without gradients, in bytes.

    With `cached`, the keys and values of all layers are included, and the logits of the last
    position; with `all_logits`, the logits of every position.
    """
    config = model.config.get_text_config()
    heads, hidden = config.num_attention_heads, config.hidden_size
    value_bytes = model.dtype.itemsize
    width_names = ("intermediate_size", "ffn_dim", "n_inner")
    widths = (getattr(config, name, None) for name in width_names)
    mlp_width = next(filter(None, widths), 4 * hidden)
    # One layer at a time: its states, queries, keys and values, and activations of its MLP.
    n_bytes = value_bytes * (12 * hidden + 3 * mlp_width)
    if config._attn_implementation == "eager":
        # Scores of all earlier tokens: raw, masked, in float32, and as weights.
        n_bytes += longest * heads * (3 * value_bytes + 4)
    logits = config.vocab_size * (value_bytes + 8)  # also twice in float32
    if all_logits:
        n_bytes += logits
    if cached:
        dimension = getattr(config, "head_dim", None) or hidden // heads
        cached_heads = getattr(config, "num_key_value_heads", None) or heads
        n_bytes += 2 * config.num_hidden_layers * cached_heads * dimension * value_bytes
        n_bytes += logits / longest
    return n_bytes


def run_batches(
    items: Sequence[Item],
    length: Callable[[Item], int],
    compute: Callable[[Sequence[Item]], Result],
    *,
    max_tokens: float,
    max_items: float = math.inf,
) -> Iterator[tuple[Sequence[Item], Result]]:
    """Compute items in batches, in order; yield each batch with its result.

    `length` returns the number of tokens of an item. A batch has at most `max_tokens` tokens, with
    shorter items padded to the longest one, and at most `max_items` items; a single item may have
    more tokens. If a batch does not fit into the memory of a GPU, this batch and later ones are
    formed with at most half as many tokens.
    """
    begin = 0
    while begin < len(items):
        end, longest = begin + 1, length(items[begin])
        while end < len(items) and end - begin < max_items:
            wider = max(longest, length(items[end]))
            if (end + 1 - begin) * wider > max_tokens:
                break
            end, longest = end + 1, wider
        batch = items[begin:end]
        try:
            result = compute(batch)
        except torch.OutOfMemoryError:
            if len(batch) == 1:
                raise
        else:
            yield batch, result
            begin = end
            continue
        # Not in the handler: there the exception still holds the tensors of the batch.
        torch.cuda.empty_cache()
        max_tokens = len(batch) * longest // 2
        logger.warning(
            "a batch does not fit into memory; from here on batches have at most %d tokens",
            max_tokens,
        )
