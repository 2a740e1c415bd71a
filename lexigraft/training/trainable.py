"""Prepares a model for what a phase trains, and merges what was attached to it afterwards."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch.nn import Module, ModuleList, Parameter

from lexigraft.errors import UserError
from lexigraft.initialization.recipe import RecipePair
from lexigraft.source.model import is_masked
from lexigraft.training.adapted_layers import attached_adapters, merge_adapters
from lexigraft.training.lora_targets import lora_config, lora_targets
from lexigraft.training.new_rows import attach_new_rows, merge_new_rows
from lexigraft.training.objective import Progress
from lexigraft.training.settings import Phase
from lexigraft.training.store import matrix_names

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


def prepare_phase(
    model: "PreTrainedModel", phase: Phase, new_ids: Sequence[int] = ()
) -> tuple[list[str], "PeftModel | None"]:
    """Freeze everything, then unfreeze what `phase.trainable` names.

    LoRA's adapters (see `lora_targets`) are added to `model` itself. Embeddings
    and head are trained as plain parameters, not as PEFT's `modules_to_save`: those are copies, and
    copies of tied matrices would differ. New rows, of the tokens `new_ids` that the source does not
    have, get separate parameters, which `finish_phase` merges.

    Returns the names of the model's own parameters that are trained, in the model's order, and the
    PEFT model of the adapters, which wraps `model`.

    Raises
    ------
    UserError
        The model lacks a named part, or the vocabulary has no new tokens.
    """
    chosen = own_parameters(model, phase)
    model.requires_grad_(False)
    adapter = None
    if "lora" in phase.trainable:
        from peft import get_peft_model

        targets = lora_targets(model, phase.lora)
        task_type = None if is_masked(model) else "CAUSAL_LM"
        adapter = get_peft_model(model, lora_config(targets, phase.lora, task_type))
    for parameter in chosen.values():
        parameter.requires_grad_(True)
    if "new-rows" in phase.trainable:
        attach_new_rows(model, new_ids)
    return list(chosen), adapter


def finish_phase(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    phase: Phase,
    names: list[str],
    progress: Progress,
) -> RecipePair | None:
    """Merge new rows and VocADT's adapters into plain matrices; LoRA's adapters stay.

    `names` are those that `prepare_phase` returned; `progress` is updated. Returns the trained
    VocADT adapters, if the phase trained any.
    """
    if "new-rows" in phase.trainable:
        merge_new_rows(model)
        progress.with_new_rows |= matrix_names(model)
    if phase.adapter is None:
        return None
    progress.trained -= set(names)
    for adapter in attached_adapters(model):
        progress.adapter_size += sum(parameter.numel() for parameter in adapter.parameters())
    recipes = merge_adapters(model, tokenizer)
    progress.from_adapters = matrix_names(model)
    return recipes


def trains_head(phase: Phase) -> bool:
    """Whether a phase trains the output head, and with it the extra head of objective `mtp`."""
    return bool({"head", "outside-layers", "all"} & set(phase.trainable))


def merge_lora(adapter: "PeftModel") -> list[str]:
    """Merge LoRA's adapters into their model; return the names of the parameters that change."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    adapted = set()
    for name, module in adapter.get_base_model().named_modules():
        if isinstance(module, BaseTunerLayer):
            weight = getattr(module, "parameter_name", "weight")
            adapted.add(f"{name.replace('.base_layer', '')}.{weight}")
    return [name for name, _ in adapter.merge_and_unload().named_parameters() if name in adapted]


def lora_parameter_count(model: "PreTrainedModel") -> int:
    """The number of parameters of LoRA's adapters in a model."""
    return sum(p.numel() for name, p in model.named_parameters() if "lora_" in name)


def trained_parameter_count(model: "PreTrainedModel", progress: Progress, new_rows: int) -> int:
    """The number of parameters trained so far: each of the model's own once, and adapters.

    LoRA's adapters may still be in the model. `new_rows` is the number of trained rows of a matrix
    of which only the new rows are trained.
    """
    named = model.named_parameters()
    own = {name.replace(".base_layer", ""): parameter for name, parameter in named}
    whole = sum(own[name].numel() for name in progress.trained)
    in_rows = progress.with_new_rows - progress.trained
    rows = sum(new_rows * own[name][0].numel() for name in in_rows)
    return whole + rows + progress.adapter_size


def decoder_layers(model: "PreTrainedModel") -> ModuleList:
    """The stack of decoder layers, whatever the architecture calls it.

    Raises a UserError if no list of modules is as long as the configuration says.
    """
    count = model.config.get_text_config().num_hidden_layers
    lists = (module for module in model.modules() if isinstance(module, ModuleList))
    stacks = [modules for modules in lists if len(modules) == count]
    if not stacks:
        raise UserError(
            f"trainable: {type(model).__name__} has no stack of {count} decoder layers; single "
            "layers of this architecture cannot be trained"
        )
    return max(stacks, key=lambda stack: sum(p.numel() for p in stack.parameters()))


def own_parameters(model: "PreTrainedModel", phase: Phase) -> "dict[str, Parameter]":
    """The model's own parameters that a phase trains, by name.

    Raises a UserError if the model lacks a named part.
    """
    modules: list[Module] = [model] if "all" in phase.trainable else []
    if "adapter" in phase.trainable:
        modules += attached_adapters(model)
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
                raise UserError(
                    f"trainable: layer {index} does not exist; the model has {len(stack)} layers"
                )
            modules.append(stack[index])
    # By identity: a tied head is the input embedding under a second name.
    wanted = {id(parameter) for module in modules for parameter in module.parameters()}
    if "outside-layers" in phase.trainable:
        inside = {id(parameter) for parameter in decoder_layers(model).parameters()}
        wanted |= {id(parameter) for parameter in model.parameters()} - inside
    return {name: p for name, p in model.named_parameters() if id(p) in wanted}
