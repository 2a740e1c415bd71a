"""Which device and which precision a job runs on."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def device() -> "torch.device":
    """The GPU where there is one, else the CPU."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def precision() -> "torch.dtype":
    """bfloat16 where the hardware multiplies it faster than float32, else float32.

    On CPUs without AVX512-BF16 or AMX, bfloat16 is emulated and several times slower.
    `LEXIGRAFT_PRECISION=float32` or `bfloat16` overrides the choice.
    """
    import torch

    requested = os.environ.get("LEXIGRAFT_PRECISION")
    if requested in ("float32", "bfloat16"):
        return getattr(torch, requested)
    if torch.cuda.is_available():
        fast = torch.cuda.is_bf16_supported()
    else:
        fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if fast else torch.float32
