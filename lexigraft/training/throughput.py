"""How fast a training run is, and how much of what its hardware can do it gets out of it."""

import platform
import resource
import sys
from typing import TYPE_CHECKING, Any

from lexigraft.hardware import device, precision
from lexigraft.training.distributed import processes, sharded

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from lexigraft.training.journal import Journal

# FLOP/s of bfloat16 products of matrices without sparsity, from NVIDIA's data sheets, by what the
# name of a GPU has in it. The first one that fits counts.
PEAKS = {
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
    """Operations that training on one token needs, as shares of peak count them.

    Six for each parameter: two of the forward pass, four of the backward pass (Chowdhery et al.
    2022, appendix B, without attention's own products, which are few in short sequences). Rows that
    are only looked up cost none. What is frozen or computed twice counts as if it were not, so that
    strategies compare by how fast they get through a text.
    """
    looked_up = 0
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    if head is not None:
        own = {id(parameter) for parameter in head.parameters()}
        looked_up = sum(p.numel() for p in embeddings.parameters() if id(p) not in own)
    return 6.0 * (sum(parameter.numel() for parameter in model.parameters()) - looked_up)


def full_speed(model: "PreTrainedModel") -> float | None:
    """Tokens per second of hardware that did nothing else, all processes together.

    None on a CPU, in float32, and on a GPU whose peak is not known, such as a slice of one (MIG).
    """
    import torch

    if device().type != "cuda" or precision() != torch.bfloat16:
        return None
    peak = peak_of(torch.cuda.get_device_name())
    return None if peak is None else processes() * peak / flops_per_token(model)


def peak_of(name: str) -> float | None:
    """FLOP/s of a GPU by the name that it gives itself; None if it is not known."""
    known = (flops for part, flops in PEAKS.items() if part in name)
    return None if "MIG" in name else next(known, None)


def measured(journal: "Journal") -> dict[str, Any]:
    """What the log says of the whole run, interruptions left out, and where it ran."""
    import torch

    steps, curve = journal.lines("step"), journal.lines("heldout")
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
        "processes": processes(),
        "sharded": sharded(),
        "threads": torch.get_num_threads(),
        "heldout_before": curve[0]["bits_per_byte"],
        "heldout_after": curve[-1]["bits_per_byte"],
        "english_before": curve[0].get("english_bits_per_byte"),
        "english_after": curve[-1].get("english_bits_per_byte"),
    }
