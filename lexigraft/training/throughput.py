"""The speed of a training run, and its share of the hardware's peak (model FLOPs utilization)."""

import platform
import resource
import sys
from typing import TYPE_CHECKING, Any

from lexigraft.hardware import device, precision
from lexigraft.training.distributed import is_sharded, world_size

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from lexigraft.training.training_log import TrainingLog

# Dense bfloat16 FLOP/s from NVIDIA's data sheets, by a part of the GPU's name; the first match
# counts.
PEAK_FLOPS = {
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H200 NVL": 835e12,
    "H100": 989e12,
    "H200": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L40": 181e12,
    "L4": 121e12,
}


def flops_per_token(model: "PreTrainedModel") -> float:
    """Floating-point operations for training on one token, as utilization counts them.

    Six for each parameter: two in the forward pass, four in the backward pass (Chowdhery et al.
    2022, Appendix B, without attention's own products, which are few in short sequences). Rows that
    are only looked up count none. Frozen parameters count like trained ones and recomputation does
    not count, so that strategies compare by the time that they need for a text.
    """
    looked_up = 0
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    if head is not None:
        own = {id(parameter) for parameter in head.parameters()}
        looked_up = sum(p.numel() for p in embeddings.parameters() if id(p) not in own)
    return 6.0 * (sum(parameter.numel() for parameter in model.parameters()) - looked_up)


def peak_tokens_per_second(model: "PreTrainedModel") -> float | None:
    """Tokens per second of all processes at the hardware's peak.

    None on a CPU, in float32, and on a GPU whose peak is unknown, such as a MIG slice.
    """
    import torch

    if device().type != "cuda" or precision() != torch.bfloat16:
        return None
    peak = peak_flops(torch.cuda.get_device_name())
    return None if peak is None else world_size() * peak / flops_per_token(model)


def peak_flops(name: str) -> float | None:
    """Peak FLOP/s of a GPU by its name; None if unknown."""
    known = (flops for part, flops in PEAK_FLOPS.items() if part in name)
    return None if "MIG" in name else next(known, None)


def summarize_run(training_log: "TrainingLog") -> dict[str, Any]:
    """Steps, speed, memory and hardware of the whole run without interruptions, for its card."""
    import torch

    steps, curve = training_log.lines("step"), training_log.lines("heldout")
    tokens = steps[-1]["tokens"] if steps else 0
    seconds = sum(line["seconds"] for line in steps)
    shares = [(line["share_of_peak"], line["seconds"]) for line in steps if line["share_of_peak"]]
    on_gpu = device().type == "cuda"
    # Kilobytes on Linux, bytes on macOS.
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    resident *= 1 if sys.platform == "darwin" else 1024
    return {
        "steps": len(steps),
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds if steps else None,
        "share_of_peak": sum(s * t for s, t in shares) / seconds if shares else None,
        # Of the first process.
        "peak_memory_bytes": torch.cuda.max_memory_allocated() if on_gpu else resident,
        "precision": str(precision()).removeprefix("torch."),
        "device": torch.cuda.get_device_name() if on_gpu else f"{platform.machine()} CPU",
        "processes": world_size(),
        "sharded": is_sharded(),
        "threads": torch.get_num_threads(),
        "heldout_before": curve[0]["bits_per_byte"],
        "heldout_after": curve[-1]["bits_per_byte"],
        "english_before": curve[0].get("english_bits_per_byte"),
        "english_after": curve[-1].get("english_bits_per_byte"),
    }
