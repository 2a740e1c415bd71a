"""Time the generation of a model, and express it in units that do not depend on a vocabulary."""

import time
from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast, StoppingCriteriaList

from lexigraft.inference.generation import continue_greedily, decode, end_tokens, padding_token


class Pass(NamedTuple):
    """A timed pass over all prompts."""

    reading: float  # seconds up to the first tokens
    decoding: float  # seconds after them
    texts: list[str]


def time_pass(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    prompts: list[list[int]],
    batch_size: int,
    new_tokens: int,
) -> Pass:
    """Continue each prompt greedily by exactly `new_tokens`, in batches, and take the times."""
    moments: list[float] = []  # when a batch begins, and when its first token is there

    def note_first_token(ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        if len(moments) == 1:
            moments.append(_seconds(model.device))
        return torch.zeros(len(ids), dtype=torch.bool, device=ids.device)

    reading = decoding = 0.0
    rows: list[list[int]] = []
    for first in range(0, len(prompts), batch_size):
        moments[:] = [_seconds(model.device)]
        ids = continue_greedily(
            model,
            prompts[first : first + batch_size],
            padding=padding_token(tokenizer),
            stop_tokens=sorted(end_tokens(model, tokenizer)),
            max_new_tokens=new_tokens,
            min_new_tokens=new_tokens,
            criteria=StoppingCriteriaList([note_first_token]),
        )
        begin, first_token, end = *moments, _seconds(model.device)
        reading += first_token - begin
        decoding += end - first_token
        rows.extend(ids.tolist())
    return Pass(reading, decoding, decode(tokenizer, rows))


def rates(
    passes: Sequence[Pass], prompts: int, batch_size: int, new_tokens: int, text: dict[str, int]
) -> tuple[dict[str, float], dict[str, Any]]:
    """The metrics of a batch size from its passes, and the measurements behind them.

    `text` are the `characters`, `bytes` and `tokens` of a text that is the same for every cell.
    """
    seconds = [timed.reading + timed.decoding for timed in passes]
    batches = prompts // batch_size
    steps = batches * (new_tokens - 1)  # reading the prompt yields the first token
    steps_per_second = steps / median(timed.decoding for timed in passes)
    # Replacement characters represent invalid bytes.
    texts = [output.replace("\N{REPLACEMENT CHARACTER}", "") for output in passes[-1].texts]
    generated = {
        "tokens": prompts * new_tokens,
        "characters": sum(map(len, texts)),
        "bytes": sum(len(output.encode()) for output in texts),
    }
    text_steps = text["tokens"] / batch_size  # with all rows of a batch in use
    metrics = {
        **{f"{unit}_per_second": count / median(seconds) for unit, count in generated.items()},
        "steps_per_second": steps_per_second,
        "same_text_characters_per_second": text["characters"] / text_steps * steps_per_second,
        "same_text_bytes_per_second": text["bytes"] / text_steps * steps_per_second,
        "first_token_seconds": median(timed.reading for timed in passes) / batches,
        "spread": (max(seconds) - min(seconds)) / median(seconds),
    }
    details = {
        "seconds": seconds,
        "seconds_reading_prompts": [timed.reading for timed in passes],
        "steps": steps,
        "generated": generated,
        "texts": passes[-1].texts,
    }
    return metrics, details


def _seconds(device: torch.device) -> float:
    """Seconds on a monotonic clock, after the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
