"""The device, precision and attention implementation of a job."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PretrainedConfig, TrainingArguments
from transformers.utils import is_flash_attn_2_available

from lexigraft.errors import UserError
from lexigraft.machine import setting

logger = logging.getLogger(__name__)
PRECISION = "LEXIGRAFT_PRECISION"
_only_cpu = False


def device() -> torch.device:
    """The GPU if there is one, otherwise the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() and not _only_cpu else "cpu")


@contextmanager
def only_cpu() -> Iterator[None]:
    """Compute on the CPU even if there is a GPU."""
    global _only_cpu
    before, _only_cpu = _only_cpu, True
    try:
        yield
    finally:
        _only_cpu = before


def trainer_arguments(folder: str | Path, seed: int, **arguments: Any) -> TrainingArguments:
    """Arguments of a Trainer on one device that, by default, neither reports nor saves."""
    on_gpu = device().type == "cuda"
    arguments = {"save_strategy": "no"} | arguments
    trainer = TrainingArguments(
        output_dir=str(folder),
        seed=seed,
        use_cpu=not on_gpu,
        logging_nan_inf_filter=False,
        report_to="none",
        remove_unused_columns=False,
        dataloader_pin_memory=on_gpu,
        **arguments,
    )
    if on_gpu:
        # With several visible GPUs the Trainer would split each batch over them (DataParallel).
        trainer._n_gpu = min(1, trainer.n_gpu)
    return trainer


def precision() -> torch.dtype:
    """bfloat16 if the hardware multiplies it faster than float32, otherwise float32.

    On CPUs without AVX512-BF16 or AMX and on GPUs before Ampere, bfloat16 is emulated and slower.
    """
    if requested := setting("precision"):
        return getattr(torch, requested)
    if torch.cuda.is_available():
        is_fast = _has_bfloat16()
    else:
        is_fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        is_fast = is_fast and _survives_bfloat16()
    return torch.bfloat16 if is_fast else torch.float32


def autocast() -> torch.autocast:
    """Lets models with float32 weights compute in bfloat16, if that is the precision.

    Evaluations whose numbers are compared with those from training must do so, too: a model whose
    weights are all bfloat16 differs by more than rounding (SmolLM2 on Telugu: 1.935 bits per byte
    instead of 1.946).
    """
    # Without autocast's cache, which would hold a copy of the trained weights for the whole pass:
    # chunks of logits cache the head's, and the others are used only twice in a pass.
    return torch.autocast(
        device().type,
        dtype=torch.bfloat16,
        enabled=precision() == torch.bfloat16,
        cache_enabled=False,
    )


@cache
def _survives_bfloat16() -> bool:
    """Whether this CPU can multiply in bfloat16, tested in a separate process.

    Some virtual machines list AMX but kill a process that uses it ("Illegal instruction").
    """
    child = os.fork()
    if child == 0:
        try:
            torch.set_num_threads(1)  # threads do not survive a fork
            # "cpu", since the default may be the meta device, on which nothing is computed.
            weights = torch.ones(64, 64, dtype=torch.bfloat16, device="cpu")
            torch.nn.functional.linear(weights, weights)
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1] == 0:
        return True
    logger.warning(
        "bfloat16 computations fail on this machine, although its CPU reports support for them; "
        "float32 is used. With ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 and "
        "LEXIGRAFT_PRECISION=bfloat16 it may work"
    )
    return False


@cache
def _has_bfloat16() -> bool:
    # GPUs before Ampere (V100, T4) emulate it, slower than float32; float16 would need loss
    # scaling, which changes training.
    native = torch.cuda.is_bf16_supported(including_emulation=False)
    if not native:
        name = torch.cuda.get_device_name()
        logger.warning("%s does not support bfloat16 natively; float32 is used", name)
    return native


def attention(config: PretrainedConfig) -> str | None:
    """The attention implementation to load a model with; None is transformers' choice.

    Raises a UserError if the model or the machine does not support `LEXIGRAFT_ATTENTION`.
    """
    name = setting("attention")
    if name in (None, "sdpa", "eager"):
        return None if name == "sdpa" else name
    [architecture] = config.architectures or ["PreTrainedModel"]
    model, flash = getattr(transformers, architecture), name == "flash_attention_2"
    supported = model._supports_flash_attn if flash else model._supports_flex_attn
    obstacles = {
        "there is no GPU": device().type != "cuda",
        f"transformers does not support it for {model.__name__}": not supported,
        # Otherwise transformers would look for a kernel on the hub.
        "the package flash-attn is not installed": flash and not is_flash_attn_2_available(),
        "it supports only bfloat16": flash and precision() != torch.bfloat16,
        "it does not support dropout": not flash and bool(getattr(config, "attention_dropout", 0)),
    }
    for obstacle, is_present in obstacles.items():
        if is_present:
            raise UserError(f"LEXIGRAFT_ATTENTION: {name} cannot be used ({obstacle}); use sdpa")
    return str(name)
