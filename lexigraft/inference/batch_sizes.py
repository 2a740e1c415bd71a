"""How much is computed at a time: as much as the free memory of a GPU holds.

A size is estimated, then corrected by what happens: what does not fit is computed in smaller parts.
Sizes change results by their rounding alone, so they are no part of a job's digest. On CPUs, whose
memory is not estimated, they are fixed.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from lexigraft.machine import setting

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

Item = TypeVar("Item")
Result = TypeVar("Result")
logger = logging.getLogger(__name__)

SHARE = 0.8  # of the free memory; fragments and what is not estimated have the rest
# Larger batches are hardly faster, and an interruption costs more.
_PROMPTS = {"cpu": 8, "cuda": 128}
_SCORED_TOKENS = {"cpu": 2048, "cuda": 2**15}


def free_memory(device: "torch.device") -> int:
    """The bytes that this process can still allocate on a GPU."""
    import torch

    free, total = torch.cuda.mem_get_info(device)
    reserved = torch.cuda.memory_reserved(device)
    allowed = int(total * torch.cuda.get_per_process_memory_fraction(device)) - reserved
    return min(free, allowed) + reserved - torch.cuda.memory_allocated(device)


def usual_prompts(model: Any) -> int:
    """How many prompts are continued at a time where nothing says otherwise."""
    return _PROMPTS[model.device.type]


def generation_limits(
    model: "PreTrainedModel", longest: int, most: int | None = None
) -> tuple[float, float]:
    """The most tokens, padding and new ones included, and the most prompts of a batch.

    `longest` is the tokens of the longest prompt with its continuation; `most` replaces the usual
    number of prompts.
    """
    if given := setting("batch_tokens"):
        return given, most or math.inf
    return _fitting_tokens(model, longest, cached=True), most or usual_prompts(model)


def scoring_tokens(model: "PreTrainedModel", longest: int, most: int | None = None) -> float:
    """The most tokens of a batch without a cache, padding included.

    `longest` is the tokens of the longest text or window; `most` replaces the usual number.
    """
    if given := setting("batch_tokens"):
        return given
    most = most or _SCORED_TOKENS[model.device.type]
    return min(most, _fitting_tokens(model, longest, cached=False))


def rows_with_logits(model: "PreTrainedModel", longest: int, most: int | None = None) -> int:
    """The most texts of a batch all of whose logits are there at once, at least one.

    `longest` is the tokens of the longest text; `most` replaces the usual number of texts.
    """
    tokens = setting("batch_tokens") or _fitting_tokens(
        model, longest, cached=False, all_logits=True
    )
    return int(max(1, min(tokens / longest, most or usual_prompts(model))))


def run_batches(
    items: Sequence[Item],
    length: Callable[[Item], int],
    compute: Callable[[Sequence[Item]], Result],
    *,
    tokens: float,
    most: float = math.inf,
) -> Iterator[tuple[Sequence[Item], Result]]:
    """Compute items in batches, in their order; yields each batch with its result.

    A batch has at most so many `tokens`, shorter items padded to its longest one, and at most
    `most` items; or it is a single item. Where a batch does not fit into a GPU, it is formed anew,
    and it and later ones have at most half as many tokens.
    """
    import torch

    begin = 0
    while begin < len(items):
        end, longest = begin + 1, length(items[begin])
        while end < len(items) and end - begin < most:
            wider = max(longest, length(items[end]))
            if (end + 1 - begin) * wider > tokens:
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
        tokens = len(batch) * longest // 2
        logger.warning(
            "a batch does not fit into memory; from here on batches have at most %d tokens", tokens
        )


def _fitting_tokens(model: "PreTrainedModel", longest: int, **kind: bool) -> float:
    """The tokens of a batch that fit into the free memory of a GPU; of a CPU without limit."""
    if model.device.type == "cpu":
        return math.inf
    return SHARE * free_memory(model.device) / bytes_per_token(model, longest, **kind)


def bytes_per_token(
    model: "PreTrainedModel", longest: int, *, cached: bool, all_logits: bool = False
) -> float:
    """The memory that a token of a batch takes in a forward pass without gradients, estimated.

    `longest` is the tokens of the batch's longest sequence. With a cache, its keys and values of
    all layers count, and the logits of the last position. With `all_logits`, those of every
    position do.
    """
    config = model.config.get_text_config()
    heads, hidden, size = config.num_attention_heads, config.hidden_size, model.dtype.itemsize
    names = ("intermediate_size", "ffn_dim", "n_inner")
    inner = next(filter(None, (getattr(config, name, None) for name in names)), 4 * hidden)
    # Of one layer at a time: its states, queries, keys and values, and what its MLP computes.
    taken = size * (12 * hidden + 3 * inner)
    if config._attn_implementation == "eager":
        # The scores of all earlier tokens, masked, as float32 and as weights.
        taken += longest * heads * (3 * size + 4)
    if all_logits:
        taken += config.vocab_size * (size + 8)  # the latter twice in float32
    if cached:
        dimension = getattr(config, "head_dim", None) or hidden // heads
        cached_heads = getattr(config, "num_key_value_heads", None) or heads
        taken += 2 * config.num_hidden_layers * cached_heads * dimension * size
        taken += config.vocab_size * (size + 8) / longest
    return taken
