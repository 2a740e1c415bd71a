"""Attention influence modeling: pieces of text influence each other as in the source model.

Haltiuk and Smywiński-Pohl (2025), "Model-Aware Tokenizer Transfer" (MATT, arXiv 2510.21954). It
warms up the embeddings of new tokens, at a third of the cost of a whole pass, before a phase of
another objective.

The influence of a piece of text on a later one is what its tokens contribute to the output of an
attention head at the last token of the later piece: the sum of their value vectors, weighted by
attention, [head_size]. It does not depend on the number of tokens of a piece, so it is comparable
between models with different vocabularies.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError
from lexigraft.inference.text_encoding import IGNORED
from lexigraft.settings import Settings, optional
from lexigraft.training.chunk_distillation import (
    ChunkDistillation,
    chunks_of,
    pop_teacher_inputs,
)
from lexigraft.training.objective import TokenCost
from lexigraft.training.settings import Phase, left_out

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

_SHARE = 3  # by default, the first third of the layers is computed
_RECORDING = "lexigraft-recording"  # an implementation in transformers' attention registry


class AimSettings(Settings):
    """Attention influence modeling (MATT; Haltiuk et al. 2025), taught by the cell's source."""

    layers: int = optional(
        "number of decoder layers that are computed; the attention of the last one is compared. "
        "By default a third of the model's layers",
        ge=1,
    )


class AimPhase(Phase):
    """A phase that is taught by attention of the cell's own source."""

    aim: AimSettings = left_out(AimSettings, "the layers")


class AttentionInfluence(ChunkDistillation):
    """The mean squared difference of influences in one attention layer, over pairs of chunks.

    The layer is the last of the first `layers`; later ones are not computed.
    """

    predicts = (
        "the influence that pieces of text have on each other in one attention layer of the source "
        "model"
    )
    phase = AimPhase
    teacher_key = "aim"  # always the cell's source
    layers: int

    @classmethod
    def cost(cls, phase):
        """The first third of the layers, and of the teacher, which reads its own tokens."""
        return TokenCost(1 / _SHARE, 1 / _SHARE, teacher_tokenizes=True)

    @classmethod
    def for_phase(cls, context):
        """Create the objective with the first layers of the source model.

        Raises a UserError if the model has fewer layers, or is sharded, or the phase trains
        parameters that the loss does not depend on.
        """
        from lexigraft.training.distributed import is_sharded
        from lexigraft.training.trainable import decoder_layers

        # FSDP frees a layer's weights after its pass, and gathers them only for the gradient of its
        # output, which the loss does not depend on.
        if is_sharded():
            raise UserError(
                "objective: aim cannot train a sharded model; set training_sharded: false"
            )
        objective, model = super().for_phase(context), context.model
        objective.layers = layers_for(objective.settings.layers, model)
        del decoder_layers(objective.teacher)[objective.layers :]
        objective.teacher.config.get_text_config().num_hidden_layers = objective.layers
        modules = [model.get_input_embeddings(), *decoder_layers(model)[: objective.layers - 1]]
        read = {id(parameter) for module in modules for parameter in module.parameters()}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and id(parameter) not in read:
                raise UserError(
                    f"aim: the attention of layer {objective.layers} does not depend on {name}, "
                    "which the phase trains; remove it from 'trainable', or use objective alm"
                )
        return objective

    def count_targets(self, batch):
        """The number of pairs of a chunk and itself or an earlier one of its document, [1]."""
        _, ends = chunks_of(batch)
        documents = _documents(batch)
        pairs = documents[:, :, None] == documents[:, None, :]
        pairs &= ends[:, :, None] & ends[:, None, :]
        return pairs.tril().sum()[None]

    def losses(self, model, inputs, weights=None):
        """The difference summed over all pairs, [1]."""
        import torch
        from torch.utils.checkpoint import checkpoint

        (chunks, _), teacher_inputs = chunks_of(inputs), pop_teacher_inputs(inputs)
        attention = _attention_of(model, self.layers, inputs)
        if not teacher_inputs:  # in a process with no sequence left, nothing counts
            return attention.value.float().sum()[None] * 0
        teacher_chunks = teacher_inputs.pop("chunks")
        with torch.no_grad():
            teacher = _attention_of(self.teacher, self.layers, teacher_inputs)
        documents, teacher_documents = _documents(inputs), _documents(teacher_inputs)
        total = attention.value.new_zeros((), dtype=torch.float32)
        with torch.autocast(attention.value.device.type, enabled=False):
            for number in range(len(chunks)):
                # The weights of all pairs are as large as the rest of a pass, so they are
                # recomputed.
                total = total + checkpoint(
                    influence_difference,
                    attention.of_sequence(number, documents),
                    teacher.of_sequence(number, teacher_documents),
                    chunks[number],
                    teacher_chunks[number],
                    use_reentrant=False,
                )
        return total[None] / (attention.query.shape[1] * attention.query.shape[3])


def layers_for(requested: int | None, model: "PreTrainedModel") -> int:
    """The number of a model's decoder layers that are used: as requested, or a third.

    Raises a UserError if the model has fewer.
    """
    count: int = model.config.get_text_config().num_hidden_layers
    if requested is not None and requested > count:
        raise UserError(
            f"aim.layers: {requested} is more than the model's {count} layers; lower it"
        )
    return requested or math.ceil(count / _SHARE)


@dataclass(frozen=True)
class _Attention:
    """The inputs of one attention layer for a batch, or for one of its sequences.

    `query` is [batch, heads, tokens, head_size]; `key` and `value` have the same shape, or fewer
    heads, each of which is shared by several consecutive heads of the query. Those of a sequence
    have no first dimension, and `documents` [tokens].
    """

    query: "torch.Tensor"
    key: "torch.Tensor"
    value: "torch.Tensor"
    scaling: float
    softcap: float | None
    window: int | None
    documents: Any = None

    def of_sequence(self, number: int, documents: "torch.Tensor") -> "_Attention":
        tensors = {name: getattr(self, name)[number] for name in ("query", "key", "value")}
        return replace(self, **tensors, documents=documents[number])

    def weights(self, rows: "torch.Tensor") -> "torch.Tensor":
        """Attention weights of the tokens `rows` of a sequence, [heads, rows, tokens], float32.

        Padding needs no mask: it is on the right, and attention is causal.
        """
        import torch

        query, key, documents = self.query[:, rows].float(), self.key.float(), self.documents
        key = key.repeat_interleave(len(query) // len(key), dim=0)
        scores = query @ key.transpose(1, 2) * self.scaling
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        distance = rows[:, None] - torch.arange(key.shape[1], device=rows.device)
        visible = (distance >= 0) & (documents[rows][:, None] == documents)
        if self.window is not None:
            visible &= distance < self.window
        return scores.masked_fill(~visible, -torch.inf).softmax(-1)


def _documents(inputs: "dict[str, torch.Tensor]") -> "torch.Tensor":
    """The document of each token of a batch, [batch, tokens] int64."""
    if "position_ids" in inputs:
        return inputs["position_ids"].eq(0).cumsum(1)
    return inputs["input_ids"].new_zeros(inputs["input_ids"].shape)


def influence_difference(
    model: _Attention, teacher: _Attention, chunks: "torch.Tensor", teacher_chunks: "torch.Tensor"
) -> "torch.Tensor":
    """The squared differences of one sequence, summed over pairs, heads and dimensions, float32.

    `chunks` are the chunk numbers of both models' tokens. The difference of a pair is a weighted
    sum of value vectors of both models. Its square therefore needs only the products of these
    vectors within each chunk, and no vector per pair. Only `model` gets a gradient.
    """
    import torch

    size, device = len(chunks), chunks.device
    positions = torch.arange(size, device=device)
    # The teacher's last token of each chunk, at the index of its number.
    columns = teacher_chunks.where(teacher_chunks.ne(IGNORED), size)
    last = torch.zeros(size + 1, dtype=torch.int64, device=device)
    teacher_positions = torch.arange(len(teacher_chunks), device=device)
    last = last.scatter_reduce(0, columns, teacher_positions, "amax")[:-1]
    with torch.no_grad():
        teacher_weights = teacher.weights(last)
    weights = torch.cat([teacher_weights, -model.weights(positions)], -1)
    weights = weights * chunks.eq(positions)[:, None]
    values = torch.cat([teacher.value.detach(), model.value], dim=1).float()
    both = torch.cat([teacher_chunks, chunks])
    in_one_chunk = (both[:, None] == both) & both.ne(IGNORED)
    products = (values @ values.transpose(1, 2)).masked_fill(~in_one_chunk, 0)
    products = products.repeat_interleave(len(weights) // len(products), dim=0)
    return ((weights @ products) * weights).sum()


class _ReachedAttention(Exception):
    """Raised, with what was recorded, to leave a model as soon as an attention is reached."""


def _attention_of(model: "PreTrainedModel", count: int, inputs: dict[str, Any]) -> _Attention:
    """The attention inputs of the last of a model's first `count` layers; no later one is run.

    Raises a UserError if the layer does not look up its attention in transformers' registry.
    """
    from transformers import AttentionInterface

    from lexigraft.training.trainable import decoder_layers

    layer: Any = decoder_layers(model)[count - 1]
    modules = [module for module in layer.modules() if hasattr(module, "layer_idx")]
    config = next((module.config for module in modules if hasattr(module, "config")), model.config)
    previous = config._attn_implementation, getattr(layer, "gradient_checkpointing", False)

    def stop(module, query, key, value, mask, scaling=None, softcap=None, **options):
        scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
        window = options.get("sliding_window")
        raise _ReachedAttention(_Attention(query, key, value, scaling, softcap, window))

    def look_up_stop(*_: Any) -> None:  # in this layer, not in earlier ones
        config._attn_implementation = _RECORDING

    AttentionInterface.register(_RECORDING, stop)
    hook = layer.register_forward_pre_hook(look_up_stop)
    layer.gradient_checkpointing = False  # as what is recorded is not recomputed
    try:
        model.base_model(**inputs, use_cache=False)
    except _ReachedAttention as reached:
        [attention] = reached.args
        return attention
    finally:
        hook.remove()
        config._attn_implementation, layer.gradient_checkpointing = previous
    raise UserError(
        f"aim: {type(layer).__name__} does not return its attention; use objective alm instead"
    )
