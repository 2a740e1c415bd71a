"""The settings of a machine, and what its devices reach.

Machine settings say how jobs compute. They change no result beyond rounding, are environment
variables, and no part of what a job is known by.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, ConfigDict

from lexigraft.settings import Settings, optional, validate


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
        "tokens of a forward and backward pass in training, padding included. By default what fits "
        "on one GPU, 4096 on several, 2048 on CPUs",
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
        "`gradient_checkpointing`; less is faster and takes more memory. By default what fits on "
        "one GPU, else 1",
        ge=0,
        le=1,
    )
    offload: bool = optional(
        "in training on one GPU, hold trained weights, their gradients and the optimizer's moments "
        "in the machine's memory, which is slower. By default where they do not fit otherwise"
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
