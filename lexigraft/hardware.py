"""Which device and which precision a job runs on, and how this machine computes.

Machine settings change no result beyond rounding. They are environment variables, and no part of
what a job is known by.
"""

import logging
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, ConfigDict

from lexigraft.errors import UserError
from lexigraft.settings import Settings, optional, validate

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, TrainingArguments


logger = logging.getLogger(__name__)
PRECISION = "LEXIGRAFT_PRECISION"


class Peak(NamedTuple):
    """What a device reaches at most: FLOP/s, and bytes read from its memory a second."""

    flops: float
    bandwidth: float


# By a part of the name that the device calls itself; the first match counts. Of NVIDIA's data
# sheets: dense bfloat16, and float32 of GPUs that only emulate it.
PEAKS = {
    "H100 PCIe": Peak(756e12, 2.0e12),
    "H100 NVL": Peak(835e12, 3.9e12),
    "H200 NVL": Peak(835e12, 4.8e12),
    "H100": Peak(989e12, 3.35e12),
    "H200": Peak(989e12, 4.8e12),
    "A100": Peak(312e12, 2.0e12),
    "L40S": Peak(362e12, 0.86e12),
    "L40": Peak(181e12, 0.86e12),
    "L4": Peak(121e12, 0.3e12),
    "V100": Peak(15.7e12, 0.9e12),
    "Tesla T4": Peak(8.1e12, 0.3e12),
    # Of any CPU only the order of magnitude: some tens of cores.
    "CPU": Peak(1e12, 50e9),
}


def known_device(name: str) -> str | None:
    """The entry of `PEAKS` that a device is; None if it has none, such as a MIG slice."""
    return None if "MIG" in name else next((part for part in PEAKS if part in name), None)


def _listed(name: str) -> str:
    if known_device(name) is None:
        raise ValueError(f"'{name}' is not known; name one of {', '.join(PEAKS)}")
    return name


class Machine(Settings):
    """How jobs compute on this machine: `LEXIGRAFT_<KEY>` in their environment."""

    # Values of environment variables and of Snakemake's `--config` are text.
    model_config = ConfigDict(strict=False)

    precision: Literal["float32", "bfloat16"] = optional(
        "of computing, on GPUs and in training. By default bfloat16 where the hardware has it"
    )
    pass_tokens: int = optional(
        "tokens of a forward and backward pass in training, padding included. By default 4096 on "
        "GPUs, 512 on CPUs",
        ge=1,
    )
    batch_tokens: int = optional(
        "tokens of a batch that is scored or generated, with padding and new tokens. By default as "
        "many as fit into memory",
        ge=1,
    )
    logits_chunk: int = optional(
        "logits that are computed at a time, in numbers. By default by the memory there is", ge=1
    )
    attention: Literal["sdpa", "eager", "flex_attention", "flash_attention_2"] = optional(
        "implementation of attention. By default `sdpa`, or `eager` where a model needs it, as "
        "Gemma 2 does; the last two need a GPU"
    )
    compile: bool = optional(
        "compile the decoder layers in training (`torch.compile`), which takes time when a phase "
        "begins. By default `false`"
    )
    recompute: float = optional(
        "share of the layers whose activations are computed again, where a strategy has "
        "`gradient_checkpointing`. By default 1; less is faster and takes more memory",
        ge=0,
        le=1,
    )
    save_minutes: float = optional(
        "least time between two checkpoints of a training, whose writing takes a fiftieth of the "
        "time at most. By default 1",
        ge=0,
    )
    report_to: Literal["none", "tensorboard", "wandb"] = optional(
        "where else training is logged. By default nowhere"
    )
    engine: Literal["auto", "transformers", "vllm"] = optional(
        "what generates in tasks that name no engine. `auto` is vLLM where it is installed and the "
        "task is greedy"
    )
    device: Annotated[str, AfterValidator(_listed)] = optional(
        "the GPU, or `CPU`, that time limits and `make cost` are computed for "
        f"([what it is for](../docs/status.md#the-cost-model)): {', '.join(PEAKS)}. By default A100"
    )


def setting(name: str) -> Any:
    """A machine setting from the environment; None if it is not set, a UserError if it is wrong."""
    variable = f"LEXIGRAFT_{name.upper()}"
    if not (text := os.environ.get(variable)):
        return None
    return getattr(validate(Machine, {name: text}, f"{variable} or machine"), name)


def job_environment(machine: Mapping[str, Any]) -> dict[str, str]:
    """The variables of a study's machine settings that the environment does not set itself.

    Raises a UserError if one that it sets is wrong.
    """
    own = {name for name in Machine.model_fields if setting(name) is not None}
    given = {name: value for name, value in machine.items() if name not in own}
    return {
        f"LEXIGRAFT_{name.upper()}": str(int(value) if isinstance(value, bool) else value)
        for name, value in given.items()
    }


def device() -> "torch.device":
    """The GPU where there is one, else the CPU."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def trainer_arguments(folder: str | Path, seed: int, **own: Any) -> "TrainingArguments":
    """Arguments of a Trainer on one device, which clips gradients to norm 1 and saves nothing."""
    from transformers import TrainingArguments

    on_gpu = device().type == "cuda"
    arguments = TrainingArguments(
        output_dir=str(folder),
        seed=seed,
        max_grad_norm=1.0,
        use_cpu=not on_gpu,
        logging_nan_inf_filter=False,
        save_strategy="no",
        report_to="none",
        remove_unused_columns=False,
        dataloader_pin_memory=on_gpu,
        **own,
    )
    if on_gpu:
        # With several visible GPUs the Trainer would split each batch over them (DataParallel).
        arguments._n_gpu = min(1, arguments.n_gpu)
    return arguments


def precision() -> "torch.dtype":
    """bfloat16 where the hardware multiplies it faster than float32, else float32.

    On CPUs without AVX512-BF16 or AMX and on GPUs before Ampere, bfloat16 is emulated and slower.
    `LEXIGRAFT_PRECISION=float32` or `bfloat16` overrides the choice.
    """
    import torch

    if requested := setting("precision"):
        return getattr(torch, requested)
    if torch.cuda.is_available():
        fast = _has_bfloat16()
    else:
        fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        fast = fast and _survives_bfloat16()
    return torch.bfloat16 if fast else torch.float32


@cache
def _survives_bfloat16() -> bool:
    """Whether this CPU multiplies in bfloat16, tried in a process of its own.

    Some virtual machines list AMX and end a process that uses it ("Illegal instruction").
    """
    import torch

    child = os.fork()
    if child == 0:
        try:
            torch.set_num_threads(1)  # threads do not survive a fork
            # Models are built on the meta device, on which nothing is computed.
            weights = torch.ones(64, 64, dtype=torch.bfloat16, device="cpu")
            torch.nn.functional.linear(weights, weights)
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1] == 0:
        return True
    logger.warning(
        "this machine fails to compute in bfloat16, though its CPU lists it; float32 is used. With "
        "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 and LEXIGRAFT_PRECISION=bfloat16 it may work"
    )
    return False


@cache
def _has_bfloat16() -> bool:
    import torch

    # GPUs before Ampere (V100, T4) emulate it, slower than float32; float16 would need its losses
    # scaled, and then trains otherwise.
    native = torch.cuda.is_bf16_supported(including_emulation=False)
    if not native:
        name = torch.cuda.get_device_name()
        logger.warning("%s does not compute in bfloat16 by itself; float32 is used", name)
    return native


def attention(config: "PretrainedConfig") -> str | None:
    """The implementation of attention that a model is loaded with; None is transformers' choice.

    Raises a UserError if `LEXIGRAFT_ATTENTION` names one that the model or the machine has not.
    """
    import torch
    import transformers
    from transformers.utils import is_flash_attn_2_available

    name = setting("attention")
    if name in (None, "sdpa", "eager"):
        return None if name == "sdpa" else name
    [architecture] = config.architectures or ["PreTrainedModel"]
    model, flash = getattr(transformers, architecture), name == "flash_attention_2"
    supported = model._supports_flash_attn if flash else model._supports_flex_attn
    obstacles = {
        "there is no GPU": device().type != "cuda",
        f"transformers does not have it for {model.__name__}": not supported,
        # Else transformers would look for a kernel on the hub.
        "the package flash-attn is not installed": flash and not is_flash_attn_2_available(),
        "it computes in bfloat16 alone": flash and precision() != torch.bfloat16,
        "it has no dropout": not flash and bool(getattr(config, "attention_dropout", 0)),
    }
    for obstacle, found in obstacles.items():
        if found:
            raise UserError(f"LEXIGRAFT_ATTENTION: {name} cannot be used, {obstacle}; use sdpa")
    return str(name)
