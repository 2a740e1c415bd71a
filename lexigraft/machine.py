"""Machine settings, and the peak performance of devices.

Machine settings control how jobs compute. They are environment variables, change results by no
more than rounding, and are not part of a job's fingerprint.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, ConfigDict

from lexigraft.settings import Settings, optional, validate


class Peak(NamedTuple):
    """Peak performance of a device: FLOP/s, and bytes per second read from its memory."""

    flops: float
    bandwidth: float


# Keyed by a part of the device's name; the first match counts. From NVIDIA's data sheets: dense
# bfloat16, or float32 for GPUs that only emulate bfloat16.
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
    # For any CPU, only the order of magnitude: a few tens of cores.
    "CPU": Peak(1e12, 50e9),
}


def known_device(name: str) -> str | None:
    """The entry of `PEAKS` for a device; None if there is none, as for a MIG slice."""
    return None if "MIG" in name else next((part for part in PEAKS if part in name), None)


def _listed(name: str) -> str:
    if known_device(name) is None:
        raise ValueError(f"'{name}' is not known; choose one of {', '.join(PEAKS)}")
    return name


class Machine(Settings):
    """How jobs compute on this machine: `LEXIGRAFT_<KEY>` in their environment."""

    # Values of environment variables and of Snakemake's `--config` are strings.
    model_config = ConfigDict(strict=False)

    precision: Literal["float32", "bfloat16"] = optional(
        "numerical precision on GPUs and in training. By default bfloat16 where the hardware has it"
    )
    pass_tokens: int = optional(
        "tokens of a forward and backward pass in training, including padding. By default as many "
        "as fit on one GPU, 4096 on several, 2048 on CPUs",
        ge=1,
    )
    batch_tokens: int = optional(
        "tokens of a batch that is scored or generated, including padding and new tokens. By "
        "default as many as fit into memory",
        ge=1,
    )
    logits_chunk: int = optional(
        "maximum number of logits computed at a time. By default set by the available memory", ge=1
    )
    attention: Literal["sdpa", "eager", "flex_attention", "flash_attention_2"] = optional(
        "attention implementation. By default `sdpa`, or `eager` for models that need it, such as "
        "Gemma 2; the last two need a GPU"
    )
    compile: bool = optional(
        "compile the decoder layers in training (`torch.compile`), which takes time at the start "
        "of a phase. By default `false`"
    )
    recompute: float = optional(
        "share of the layers whose activations are recomputed, for strategies with "
        "`gradient_checkpointing`; a smaller share is faster and takes more memory. By default as "
        "small as fits on one GPU, otherwise 1",
        ge=0,
        le=1,
    )
    offload: bool = optional(
        "in training on one GPU, keep trained weights, their gradients and the optimizer's "
        "moments in CPU memory, which is slower. By default `false`"
    )
    save_minutes: float = optional(
        "minimum minutes between two checkpoints of a training; writing them takes at most a "
        "fiftieth of the time. By default 1",
        ge=0,
    )
    report_to: Literal["none", "tensorboard", "wandb"] = optional(
        "where training is logged in addition to its log file. By default nowhere"
    )
    engine: Literal["auto", "transformers", "vllm"] = optional(
        "inference engine for tasks that name none. `auto` selects vLLM where it is installed and "
        "the task is greedy, otherwise transformers"
    )
    preload: bool = optional(
        "run jobs of one thread in forks of a process that has imported torch and transformers, "
        "which saves several seconds per job. Only on Linux, without a GPU, and not on a cluster. "
        "By default `true`"
    )
    device: Annotated[str, AfterValidator(_listed)] = optional(
        "the GPU, or `CPU`, for which time limits and `make cost` are computed "
        f"([what it is for](../docs/status.md#the-cost-model)): {', '.join(PEAKS)}. By default A100"
    )


def setting(name: str) -> Any:
    """Read a machine setting from the environment; None if not set, a UserError if invalid."""
    variable = f"LEXIGRAFT_{name.upper()}"
    if not (text := os.environ.get(variable)):
        return None
    return getattr(validate(Machine, {name: text}, f"{variable} or machine"), name)


def job_environment(machine: Mapping[str, Any]) -> dict[str, str]:
    """Environment variables for a study's machine settings that the environment does not set.

    Raises a UserError if a variable in the environment is invalid.
    """
    own = {name for name in Machine.model_fields if setting(name) is not None}
    given = {name: value for name, value in machine.items() if name not in own}
    return {
        f"LEXIGRAFT_{name.upper()}": str(int(value) if isinstance(value, bool) else value)
        for name, value in given.items()
    }
