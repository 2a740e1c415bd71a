"""What a phase trains: exactly the parameters that it names, found in any architecture."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lexigraft.errors import UserError
from lexigraft.source.kind import is_masked
from lexigraft.training.adapted_layers import adapters
from lexigraft.training.new_rows import wear_new_rows
from lexigraft.training.settings import Lora, Phase

if TYPE_CHECKING:
    from peft import PeftModel
    from torch.nn import Module, ModuleList
    from transformers import PreTrainedModel


def prepare(
    model: "PreTrainedModel", phase: Phase, new_ids: Sequence[int] = ()
) -> tuple[list[str], "PeftModel | None"]:
    """Freeze everything, then unfreeze what `phase.trainable` names.

    Adapters (LoRA on every linear layer but the head) are added into `model` itself. Embeddings and
    head are trained as plain parameters beside them, not as PEFT's `modules_to_save`: those are
    copies, and copies of tied matrices come apart. New rows get parameters of their own, which
    `new_rows.take_off_new_rows` puts back.

    Parameters
    ----------
    new_ids
        Ids of the tokens that the source does not have, for `new-rows`.

    Returns
    -------
    names
        Names of the model's own parameters that are trained, in the model's order.
    adapter
        The handle on the adapters; `model` is the model inside it.

    Raises
    ------
    UserError
        The model lacks a named part, or the vocabulary new tokens.
    """
    chosen = _own_parameters(model, phase)
    model.requires_grad_(False)
    adapter = _add_lora(model, phase.lora) if "lora" in phase.trainable else None
    for parameter in chosen.values():
        parameter.requires_grad_(True)
    if "new-rows" in phase.trainable:
        wear_new_rows(model, new_ids)
    return list(chosen), adapter


def trains_head(phase: Phase) -> bool:
    """Whether a phase trains the output head, and with it the extra head of objective `mtp`."""
    return bool({"head", "outside-layers", "all"} & set(phase.trainable))


def merge(adapter: "PeftModel") -> list[str]:
    """Fold the adapters into the model that they sit in; the names of what that changed."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    adapted = {
        name
        for name, module in adapter.get_base_model().named_modules()
        if isinstance(module, BaseTunerLayer)
    }
    model = adapter.merge_and_unload()
    return [
        name for name, _ in model.named_parameters() if name in {f"{n}.weight" for n in adapted}
    ]


def adapter_parameters(adapter: "PeftModel | None") -> int:
    """How many numbers the adapters hold."""
    if adapter is None:
        return 0
    return sum(p.numel() for name, p in adapter.named_parameters() if "lora_" in name)


def decoder_layers(model: "PreTrainedModel") -> "ModuleList":
    """The stack of decoder layers, whatever the architecture calls it.

    Raises
    ------
    UserError
        No list of modules is as long as the configuration says.
    """
    from torch.nn import ModuleList

    count = model.config.get_text_config().num_hidden_layers
    stacks = [
        module
        for module in model.modules()
        if isinstance(module, ModuleList) and len(module) == count
    ]
    if not stacks:
        raise UserError(
            f"trainable: no stack of {count} decoder layers in {type(model).__name__}; "
            "this architecture cannot train single layers"
        )
    return max(stacks, key=lambda stack: sum(p.numel() for p in stack.parameters()))


def _own_parameters(model: "PreTrainedModel", phase: Phase) -> dict:
    if "all" in phase.trainable:
        return dict(model.named_parameters())
    if "adapter" in phase.trainable:
        worn = {id(weights) for adapter in adapters(model) for weights in adapter.parameters()}
        return {name: p for name, p in model.named_parameters() if id(p) in worn}
    modules: list[Module] = []
    if "embeddings" in phase.trainable:
        modules.append(model.get_input_embeddings())
    if "head" in phase.trainable:
        head = model.get_output_embeddings()
        if head is None:
            raise UserError(f"trainable: {type(model).__name__} has no output head")
        modules.append(head)
    if phase.layers:
        stack = decoder_layers(model)
        for index in phase.layers:
            if not -len(stack) <= index < len(stack):
                raise UserError(f"trainable: layer {index} of a model with {len(stack)} layers")
            modules.append(stack[index])
    # By identity: a tied head is the input embedding under a second name.
    wanted = {id(parameter) for module in modules for parameter in module.parameters()}
    if "outside-layers" in phase.trainable:
        inside = {id(parameter) for parameter in decoder_layers(model).parameters()}
        wanted |= {id(parameter) for parameter in model.parameters()} - inside
    return {name: p for name, p in model.named_parameters() if id(p) in wanted}


def _add_lora(model: "PreTrainedModel", lora: Lora) -> "PeftModel":
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]  # declared int, but only divided by r
        lora_dropout=lora.dropout,
        target_modules="all-linear",
        bias="none",
        task_type=None if is_masked(model) else "CAUSAL_LM",
    )
    return get_peft_model(model, config)
