"""Attention influence modeling: pieces of text influence each other as in the source model.

Haltiuk and Smywiński-Pohl (2025), "Model-Aware Tokenizer Transfer" (MATT, arXiv 2510.21954). It
warms up the embeddings of new tokens, at a third of the cost of a whole pass, before a phase of
another objective.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field

from lexigraft.errors import UserError
from lexigraft.settings import Settings, optional
from lexigraft.training.chunk_distillation import (
    ChunkDistillation,
    chunks_of,
    pop_teacher_inputs,
)
from lexigraft.training.objective import PhaseContext, TokenCost
from lexigraft.training.settings import Phase, left_out

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

_SHARE = 3  # by default, the first third of the layers is computed


class AimSettings(Settings):
    """Attention influence modeling (MATT; Haltiuk et al. 2025), taught by the cell's source."""

    layers: int = optional(
        "number of decoder layers that are computed; the attention of the last one is compared. "
        "By default a third of the model's layers",
        ge=1,
    )
    weight: float = Field(1.0, gt=0, description="weight of the squared difference of influences")
    next_weight: float = Field(
        0.0,
        ge=0,
        description="weight of the next-token loss that is added to it, for which all layers are "
        "computed. Untied heads need it",
    )
    teacher_length: int = optional(
        "maximum number of tokens of a sequence that the source model reads; the rest has no part "
        "in the difference. By default four times the phase's `length`, or the source's maximum "
        "if that is less",
        ge=8,
    )


class AimPhase(Phase):
    """A phase that is taught by attention of the cell's own source."""

    aim: AimSettings = left_out(AimSettings, "the layers and the loss")


class AttentionInfluence(ChunkDistillation):
    """The mean squared difference of influences in one attention layer, over pairs of chunks.

    See `attention_influence`. The layer is the last of the first `layers`. Later layers are not
    computed, except those of the model if `next_weight` adds the next-token loss, which also trains
    later layers and an untied head. In the training log, the parts are without their weights.
    """

    predicts = (
        "the influence that pieces of text have on each other in one attention layer of the source "
        "model"
    )
    phase = AimPhase
    teacher_key = "aim"  # always the cell's source
    layers: int  # decoder layers that are computed

    def __init__(self, teacher: "PreTrainedModel", settings: Any, teacher_length: int):
        super().__init__(teacher, settings, teacher_length)
        if settings.next_weight:
            self.loss_names = ("next_loss", "aim_loss")

    @classmethod
    def cost(cls, phase: Mapping[str, Any]) -> TokenCost:
        """The first third of the layers, and of the teacher, which reads its own tokens."""
        whole = (phase.get("aim") or {}).get("next_weight")
        return TokenCost(1.0 if whole else 1 / _SHARE, 1 / _SHARE, teacher_tokenizes=True)

    @classmethod
    def for_phase(cls, context: PhaseContext) -> Self:
        """Create the objective with the first layers of the source model.

        Raises a UserError if the model has fewer layers, or the phase trains parameters that the
        loss does not depend on.
        """
        from lexigraft.training.attention_influence import keep_first_layers

        objective = super().for_phase(context)
        objective.layers = layers_for(objective.settings.layers, context.model)
        keep_first_layers(objective.teacher, objective.layers)
        objective.check_trained(context.model)
        return objective

    def check_trained(self, model: "PreTrainedModel") -> None:
        """Raise a UserError if a phase trains parameters that the attention does not depend on."""
        from lexigraft.training.trainable import decoder_layers

        if self.settings.next_weight:
            return
        modules = [model.get_input_embeddings(), *decoder_layers(model)[: self.layers - 1]]
        read = {id(parameter) for module in modules for parameter in module.parameters()}
        trained = (name for name, one in model.named_parameters() if one.requires_grad)
        lost = [name for name in trained if id(model.get_parameter(name)) not in read]
        if lost:
            more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
            raise UserError(
                f"aim: the attention of layer {self.layers} does not depend on {lost[0]}{more}, "
                "which the phase trains; remove it from 'trainable', or set aim.next_weight"
            )

    def count_targets(self, batch: "dict[str, torch.Tensor]") -> "torch.Tensor":
        """The number of next tokens, if they count, and of pairs of chunks."""
        import torch

        from lexigraft.training.attention_influence import Pieces

        pairs = Pieces.of(batch, chunks_of(batch)).count_pairs()[None]
        if not self.settings.next_weight:
            return pairs
        return torch.cat([super().count_targets(batch), pairs])

    def losses(
        self,
        model: "PreTrainedModel",
        inputs: "dict[str, torch.Tensor]",
        weights: "torch.Tensor | None" = None,
    ) -> "torch.Tensor":
        """Nats of the next tokens, if they count, and the difference over all pairs, [1] or [2]."""
        import torch

        from lexigraft.inference.chunked_logits import chunked_logits, sum_nll
        from lexigraft.training.attention_influence import (
            Pieces,
            influence_difference,
            recorded_attention,
        )

        [next_tokens] = self.targets(inputs)
        chunks, theirs = chunks_of(inputs), pop_teacher_inputs(inputs)
        ours = Pieces.of(inputs, chunks)
        parts = []
        if self.settings.next_weight:
            with recorded_attention(model, self.layers - 1) as found:
                learned = chunked_logits(model, {**inputs, "use_cache": False})
            [own] = found
            next_weight = None if weights is None else weights[0]
            parts.append(sum_nll(learned, next_tokens, weight=next_weight))
        else:
            own = self._attention(model, inputs)
        if not theirs:  # in a process with no sequence left, nothing counts
            return torch.cat([*parts, own.value.float().sum()[None] * 0])
        pieces = Pieces.of(theirs, theirs.pop("chunks"))
        with torch.no_grad():
            taught = self._attention(self.teacher, theirs)
        return torch.cat([*parts, influence_difference(taught, own, pieces, ours)[None]])

    def total(self, losses: "torch.Tensor") -> "torch.Tensor":
        """The weighted sum of both."""
        total = self.settings.weight * losses[-1]
        return total + self.settings.next_weight * losses[0] if len(losses) > 1 else total

    def _attention(self, model: "PreTrainedModel", inputs: "dict[str, torch.Tensor]") -> Any:
        """The attention inputs of the layer; later layers of the model are not run."""
        from lexigraft.training.attention_influence import first_layers, recorded_attention

        with recorded_attention(model, self.layers - 1) as found, first_layers(model, self.layers):
            model.base_model(**inputs, use_cache=False)
        [attention] = found
        return attention


def layers_for(asked: int | None, model: "PreTrainedModel") -> int:
    """The number of a model's decoder layers that are used: as requested, or a third.

    Raises a UserError if the model has fewer.
    """
    there = model.config.get_text_config().num_hidden_layers
    if asked is not None and asked > there:
        raise UserError(f"aim.layers: {asked} is more than the model's {there} layers; lower it")
    return asked or math.ceil(there / _SHARE)
