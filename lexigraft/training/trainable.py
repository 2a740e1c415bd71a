"""What a phase trains: a model is prepared for a phase, and what was attached to it is merged.

Weights that a phase does not train are stored in bfloat16, if the model computes in bfloat16. Under
autocast, a linear layer rounds its weights to bfloat16, whatever their dtype. Rounded once, they
take half the memory and need no cast in each pass; losses and gradients are the same, bit for bit.
Autocast does not round embeddings and norms, so these stay in float32.
"""

import inspect
from collections.abc import Collection, Container, Sequence
from pathlib import Path

import torch
from peft import PeftModel, get_peft_model
from torch.nn import Module, ModuleList, Parameter
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.hardware import precision
from lexigraft.initialization.recipe import RecipePair
from lexigraft.source.matrices import stored_parameters
from lexigraft.source.model import is_masked, text_modules
from lexigraft.source.weights import read_tensor
from lexigraft.training.lora import lora_config, lora_targets
from lexigraft.training.new_rows import attach_new_rows, merge_new_rows
from lexigraft.training.objective import Progress
from lexigraft.training.settings import Phase
from lexigraft.training.store import linear_weights, matrix_names
from lexigraft.training.vocadt_adapter import attached_adapters, merge_adapters

_TOLERANCE = 0.01  # for rounding, as a share of the effect of another document


def prepare_phase(
    model: PreTrainedModel, phase: Phase, new_ids: Sequence[int] = ()
) -> tuple[list[str], PeftModel | None]:
    """Freeze everything, then unfreeze what `phase.trainable` names.

    LoRA's adapters are added to `model` itself. Embeddings and head are trained as plain
    parameters, not as PEFT's `modules_to_save`: those are copies, and copies of tied matrices would
    differ. The rows of the tokens `new_ids` get separate parameters, which `finish_phase` merges.

    Returns the names of the model's own parameters that are trained, in the model's order, and the
    PEFT model, which wraps `model`. Raises a UserError if the model lacks a named part, or the
    vocabulary has no new tokens.
    """
    trained = own_parameters(model, phase)
    model.requires_grad_(False)
    adapter = None
    if "lora" in phase.trainable:
        targets = lora_targets(model, phase.lora)
        task_type = None if is_masked(model) else "CAUSAL_LM"
        adapter = get_peft_model(model, lora_config(targets, phase.lora, task_type))
    for parameter in trained.values():
        parameter.requires_grad_(True)
    if "new-rows" in phase.trainable:
        attach_new_rows(model, new_ids)
    return list(trained), adapter


def finish_phase(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
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


class FrozenWeights:
    """The weights of a model's linear layers that are unchanged from its source.

    Matrices with a row for each token are excluded, as are weights without a tensor of their own in
    the files of the `source`, from which rounded weights are read again.
    """

    def __init__(self, model: PreTrainedModel, source: Path | None):
        self._stored = None if source is None else stored_parameters(source, model)
        self._weights = linear_weights(model, self._stored)

    def prepare_phase(
        self,
        model: PreTrainedModel,
        phase: Phase,
        trained: Collection[str] = (),
        new_ids: Sequence[int] = (),
    ) -> tuple[list[str], PeftModel | None]:
        """Round weights that no phase up to this one trains, and call `prepare_phase`.

        Earlier phases trained the parameters `trained`. DoRA computes norms of weights in float32,
        so with DoRA none is rounded.
        """
        if "lora" in phase.trainable and phase.lora.dora:
            self.restore()
            return prepare_phase(model, phase, new_ids)
        self.round_all_but({*trained, *own_parameters(model, phase)})
        # PEFT creates and initializes adapters in the dtype of their layer, so the weights appear
        # as float32 to it, without their values and without memory.
        values = {name: parameter.data for name, parameter in self._weights.items()}
        for parameter in self._weights.values():
            parameter.data = parameter.data.new_empty(1, dtype=torch.float32).expand_as(parameter)
        try:
            return prepare_phase(model, phase, new_ids)
        finally:
            for name, parameter in self._weights.items():
                parameter.data = values[name]

    def round_all_but(self, names: Container[str]) -> None:
        """Round weights to bfloat16; restore rounded ones of `names` to the source's float32."""
        if precision() != torch.bfloat16:
            return
        for name, parameter in self._weights.items():
            if name not in names:
                parameter.data = parameter.data.to(torch.bfloat16)
            elif parameter.dtype == torch.bfloat16:
                values = read_tensor(*self._stored[name][:2]) if self._stored else parameter.data
                parameter.data = values.to(parameter.device).float()

    def restore(self) -> None:
        """Restore all weights to the source's float32 values."""
        self.round_all_but(self._weights)


def own_parameters(model: PreTrainedModel, phase: Phase) -> dict[str, Parameter]:
    """The model's own parameters that a phase trains, by name; a UserError if it lacks a part."""
    modules: list[Module] = text_modules(model) if "all" in phase.trainable else []
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
    ids = {id(parameter) for module in modules for parameter in module.parameters()}
    if "outside-layers" in phase.trainable:
        inside = {id(parameter) for parameter in decoder_layers(model).parameters()}
        ids |= {id(p) for module in text_modules(model) for p in module.parameters()} - inside
    return {name: p for name, p in model.named_parameters() if id(p) in ids}


def trains_head(phase: Phase) -> bool:
    """Whether a phase trains the output head, and with it the extra head of objective `mtp`."""
    return bool({"head", "outside-layers", "all"} & set(phase.trainable))


def decoder_layers(model: PreTrainedModel) -> ModuleList:
    """The stack of decoder layers, by its length; raises a UserError if there is none."""
    count = model.config.get_text_config().num_hidden_layers
    modules = (module for part in text_modules(model) for module in part.modules())
    lists = (module for module in modules if isinstance(module, ModuleList))
    stacks = [modules for modules in lists if len(modules) == count]
    if not stacks:
        raise UserError(
            f"trainable: {type(model).__name__} has no stack of {count} decoder layers; single "
            "layers of this architecture cannot be trained"
        )
    return max(stacks, key=lambda stack: sum(p.numel() for p in stack.parameters()))


def trained_parameter_count(model: PreTrainedModel, progress: Progress, new_rows: int) -> int:
    """The number of parameters trained so far: each of the model's own once, and adapters.

    `new_rows` is the number of trained rows of a matrix of which only these are trained.
    """
    named = model.named_parameters()
    parameters = {name.replace(".base_layer", ""): parameter for name, parameter in named}
    in_full = sum(parameters[name].numel() for name in progress.trained)
    in_rows = progress.with_new_rows - progress.trained
    rows = sum(new_rows * parameters[name][0].numel() for name in in_rows)
    return in_full + rows + progress.adapter_size


def check_document_separation(model: PreTrainedModel) -> None:
    """Raise a UserError if an architecture does not support `packing: apart`.

    Most architectures recognize documents by their positions. The model itself is tested, in
    evaluation mode: the second of two documents must have the same logits as alone, up to rounding.
    """
    attention = model.config._attn_implementation
    if attention == "flash_attention_2":  # does so only in batches of one sequence
        raise UserError(f"packing: {attention} does not keep documents apart; use flex_attention")
    if attention == "flex_attention":  # has the same mask as others, but runs on GPUs only
        model.set_attn_implementation("eager")
    separates = False
    if "position_ids" in inspect.signature(model.forward).parameters:
        documents = torch.arange(1, 9, device=model.device)[None]
        positions = torch.arange(4, device=model.device).repeat(2)[None]
        with torch.no_grad():
            joined = model(input_ids=documents, use_cache=False).logits[:, 4:]
            alone = model(input_ids=documents[:, 4:], use_cache=False).logits
            packed = model(input_ids=documents, position_ids=positions, use_cache=False).logits
            packed = packed[:, 4:]
        difference = (joined - alone).abs().max()
        separates = bool((packed - alone).abs().max() <= _TOLERANCE * difference)
    model.set_attn_implementation(attention)
    if not separates:
        raise UserError(
            f"packing: {type(model).__name__} does not keep the documents of a sequence apart; "
            "use packing: joined"
        )
