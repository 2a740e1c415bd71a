"""LoRA: which weights of a model are adapted, and what becomes of the adapters."""

import inspect
import re
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from peft import LoraConfig, PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils.transformers_weight_conversion import convert_peft_config_for_transformers
from torch.nn import Conv1d, Linear
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from lexigraft.errors import UserError
from lexigraft.source.model import text_modules
from lexigraft.training.settings import Lora


@dataclass
class LoraTargets:
    """Names of what LoRA adapts in a model.

    `modules` are linear layers. `parameters` are weights to which PEFT adds an adapter's product in
    each pass, since no linear layer computes with them alone: those of fused experts. `left_out`
    maps other weights and settings to the reason; names of weights have `*` for numbers.
    """

    modules: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def lora_targets(model: PreTrainedModel, settings: Lora) -> LoraTargets:
    """Find what LoRA adapts: every linear layer but the head and routers, and fused experts.

    Towers are not adapted. The layers of a model are inspected, not its name. Raises a UserError if
    nothing remains.
    """
    targets, plain = LoraTargets(), {Linear.forward, Conv1D.forward}
    config = model.config.get_text_config().to_dict()
    counts = {n for key, n in config.items() if "expert" in key and isinstance(n, int) and n > 1}
    # The number of experts of a block, by the name of the block.
    experts_of_block: dict[str, int] = {}

    def leave_out(name: str, reason: str) -> None:
        targets.left_out[re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name)] = reason

    in_text = {
        id(each) for part in text_modules(model) for each in (*part.modules(), *part.parameters())
    }
    for name, parameter in model.named_parameters():
        path, _, _ = name.rpartition(".")
        if id(parameter) in in_text and parameter.ndim == 3 and len(parameter) in counts:
            if isinstance(model.get_submodule(path), Conv1d):
                continue
            experts_of_block[path.rpartition(".")[0]] = len(parameter)
            if settings.dora:
                leave_out(name, "DoRA does not support fused experts")
            else:
                targets.parameters.append(name)
    taken_for_experts = cache(partial(_is_taken_for_experts, model))
    for name, module in model.named_modules():
        if not isinstance(module, Linear | Conv1D) or id(module) not in in_text:
            continue
        if module is model.get_output_embeddings():
            continue
        path, _, attribute = name.rpartition(".")
        parent: Any = type(model.get_submodule(path))
        blocks = [block for block in experts_of_block if name.startswith(f"{block}.")]
        # Falcon's layers multiply as linear layers do, but round the product before the bias.
        if type(module).forward not in plain and type(module).__name__ != "FalconLinear":
            leave_out(name, f"{type(module).__name__} is not a plain linear layer")
        elif attribute in _read_directly(parent):
            leave_out(name, "a fused kernel reads its weight directly, past an adapter")
        elif any(experts_of_block[block] == module.weight.shape[0] for block in blocks):
            leave_out(name, "it is a router")
        elif not taken_for_experts(attribute):
            targets.modules.append(name)
        elif settings.dora:
            leave_out(name, "PEFT treats it as fused experts, which DoRA does not support")
        else:
            targets.parameters.append(f"{name}.weight")
    if not targets.modules and not targets.parameters:
        raise UserError(
            f"trainable: {type(model).__name__} has no layer that LoRA can adapt; train layers, "
            "or embeddings and head"
        )
    if targets.parameters and settings.dropout:
        targets.left_out["the setting dropout"] = "PEFT does not support dropout for fused experts"
    return targets


def lora_config(targets: LoraTargets, settings: Lora, task_type: str | None) -> LoraConfig:
    """PEFT's configuration of the adapters of these targets."""
    return LoraConfig(
        r=settings.r,
        lora_alpha=settings.alpha,  # type: ignore[arg-type]  # declared int, but divided by r
        # The input of an expert, which PEFT would drop from, is not that of the module that holds
        # all experts.
        lora_dropout=0.0 if targets.parameters else settings.dropout,
        use_rslora=settings.rslora,
        use_dora=settings.dora,
        target_modules=targets.modules,
        target_parameters=targets.parameters or None,
        bias="none",
        task_type=task_type,
    )


def merge_lora(adapter: PeftModel) -> list[str]:
    """Merge LoRA's adapters into their model; return the names of the parameters that change."""
    adapted = set()
    for name, module in adapter.get_base_model().named_modules():
        if isinstance(module, BaseTunerLayer):
            weight = getattr(module, "parameter_name", "weight")
            adapted.add(f"{name.replace('.base_layer', '')}.{weight}")
    return [name for name, _ in adapter.merge_and_unload().named_parameters() if name in adapted]


def lora_parameter_count(model: PreTrainedModel) -> int:
    """The number of parameters of LoRA's adapters in a model."""
    return sum(p.numel() for name, p in model.named_parameters() if "lora_" in name)


@cache
def _read_directly(kind: Any) -> set[str]:
    """Names of the submodules whose weights are read by the code of a module's class.

    The fused kernels of Mamba layers compute with the weights of linear layers, which are called
    only where there is no such kernel.
    """
    if kind.__module__.startswith("torch."):
        return set()
    source = inspect.getsource(kind)
    return set(re.findall(r"\bself\.(\w+)\.weight\b(?!\.(?:dtype|device|shape))", source))


def _is_taken_for_experts(model: PreTrainedModel, name: str) -> bool:
    """Whether PEFT takes a linear layer of this name for a part of fused experts.

    For architectures whose experts were linear layers before transformers 5, it replaces names of
    those layers by names of the fused weights, also where a shared expert has the same names.
    """
    config = LoraConfig(target_modules=[name])
    try:
        convert_peft_config_for_transformers(config, model, None)
    except ValueError:  # it would have to be named together with another part
        return True
    return config.target_modules != {name}
