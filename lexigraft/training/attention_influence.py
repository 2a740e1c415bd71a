"""The influence of pieces of text on each other in an attention layer, and its difference.

The influence of a piece of text on a later one is what its tokens contribute to the output of an
attention head at the last token of the later piece: the sum of their value vectors, weighted by
attention, [head_size]. It does not depend on the number of tokens of a piece, so it is comparable
between models with different vocabularies.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import Module, ModuleList
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, PreTrainedModel

from lexigraft.errors import UserError
from lexigraft.inference.chunked_logits import IGNORED
from lexigraft.training.trainable import decoder_layers

_RECORDING = "lexigraft-recording"  # an implementation in transformers' attention registry


@dataclass(frozen=True)
class Attention:
    """The inputs of one attention layer for a batch.

    `query` is [batch, heads, tokens, head_size]; `key` and `value` have the same shape, or fewer
    heads, each of which is shared by several consecutive heads of the query.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    scaling: float
    softcap: float | None
    window: int | None


@dataclass(frozen=True)
class Pieces:
    """The chunk and the document of each token of a batch, both [batch, tokens] int64.

    A chunk's number is the position of its last token in the training sequence, as in
    `TeacherTokens`, and IGNORED for a token in no chunk.
    """

    chunks: torch.Tensor
    documents: torch.Tensor

    @classmethod
    def of(cls, inputs: dict[str, torch.Tensor], chunks: torch.Tensor) -> "Pieces":
        """The pieces of a batch of `data.collate`."""
        if "position_ids" in inputs:
            return cls(chunks, inputs["position_ids"].eq(0).cumsum(1))
        return cls(chunks, torch.zeros_like(inputs["input_ids"]))

    def count_pairs(self) -> torch.Tensor:
        """Count pairs of a chunk with itself or an earlier one of its document, int64.

        Only for pieces of the model's own tokens, not of the teacher's.
        """
        places = torch.arange(self.chunks.shape[1], device=self.chunks.device)
        ends = self.chunks == places
        pairs = self.documents[:, :, None] == self.documents[:, None, :]
        pairs &= ends[:, :, None] & ends[:, None, :]
        return pairs.tril().sum()


def keep_first_layers(model: PreTrainedModel, count: int) -> None:
    """Permanently remove all but the first `count` decoder layers from a model."""
    _set_layers(model, decoder_layers(model), ModuleList(list(decoder_layers(model))[:count]))
    model.config.get_text_config().num_hidden_layers = count


@contextmanager
def first_layers(model: PreTrainedModel, count: int) -> Iterator[None]:
    """Restrict a model to its first `count` decoder layers within the context."""
    stack = decoder_layers(model)
    first = ModuleList(list(stack)[:count])
    _set_layers(model, stack, first)
    try:
        yield
    finally:
        _set_layers(model, first, stack)


def _set_layers(model: PreTrainedModel, stack: ModuleList, other: ModuleList) -> None:
    [(owner, name)] = [
        (module, name)
        for module in model.modules()
        for name, child in module.named_children()
        if child is stack
    ]
    setattr(owner, name, other)


@contextmanager
def recorded_attention(model: PreTrainedModel, number: int) -> Iterator[list[Attention]]:
    """Record the attention inputs of decoder layer `number`, counted from 0.

    Each forward pass adds an entry to the list. Raises a UserError if the layer does not look up
    its attention in transformers' registry.
    """
    layer: Any = decoder_layers(model)[number]
    config = _attention_config(layer)
    found: list[Attention] = []

    def record(_: Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        # Without gradient checkpointing, as what is recorded is not recomputed.
        usual = config._attn_implementation, getattr(layer, "gradient_checkpointing", False)
        config._attn_implementation, layer.gradient_checkpointing = _RECORDING, False
        try:
            layer.forward(*arguments, **named)
        except _Recorded as reached:
            found.append(reached.attention)
        finally:
            config._attn_implementation, layer.gradient_checkpointing = usual

    hook = layer.register_forward_pre_hook(record, with_kwargs=True)
    try:
        yield found
    finally:
        hook.remove()


def influence_difference(
    taught: Attention, own: Attention, theirs: Pieces, ours: Pieces
) -> torch.Tensor:
    """The squared difference of two models' influences, summed over pairs of chunks, a scalar.

    For each pair, it is the mean over heads and their dimensions, in float32. Only `own` gets a
    gradient.
    """
    total = own.value.new_zeros((), dtype=torch.float32)
    with torch.autocast(own.value.device.type, enabled=False):
        for sequence in range(len(ours.chunks)):
            # The weights of all pairs are as large as the rest of a pass, so they are recomputed.
            total = total + checkpoint(
                _difference, taught, own, theirs, ours, sequence, use_reentrant=False
            )
    return total / (own.query.shape[1] * own.query.shape[3])


def _difference(
    taught: Attention, own: Attention, theirs: Pieces, ours: Pieces, sequence: int
) -> torch.Tensor:
    """The squared differences of one sequence, summed over pairs, heads and dimensions.

    The difference of a pair is a weighted sum of value vectors of both models. Its square therefore
    needs only the products of these vectors within each chunk, and no vector per pair.
    """
    own_chunks, their_chunks = ours.chunks[sequence], theirs.chunks[sequence]
    places = torch.arange(len(own_chunks), device=own_chunks.device)
    # The teacher's last token of each chunk, at the index of its number.
    slots = their_chunks.where(their_chunks.ne(IGNORED), len(own_chunks))
    last = torch.zeros(len(own_chunks) + 1, dtype=torch.int64, device=own_chunks.device)
    their_places = torch.arange(len(their_chunks), device=own_chunks.device)
    last = last.scatter_reduce(0, slots, their_places, "amax")[:-1]
    with torch.no_grad():
        weights = _weights(taught, sequence, last, theirs.documents[sequence])
    weights = torch.cat([weights, -_weights(own, sequence, places, ours.documents[sequence])], -1)
    weights = weights * own_chunks.eq(places)[:, None]
    values = torch.cat([taught.value[sequence].detach(), own.value[sequence]], dim=1).float()
    chunks = torch.cat([their_chunks, own_chunks])
    together = (chunks[:, None] == chunks) & chunks.ne(IGNORED)
    products = (values @ values.transpose(1, 2)).masked_fill(~together, 0)
    products = products.repeat_interleave(len(weights) // len(products), dim=0)
    return ((weights @ products) * weights).sum()


def _weights(
    attention: Attention, sequence: int, rows: torch.Tensor, documents: torch.Tensor
) -> torch.Tensor:
    """Attention weights of the tokens `rows` of a sequence, [heads, rows, tokens], float32.

    Padding needs no mask: it is on the right, and attention is causal.
    """
    query, key = attention.query[sequence][:, rows].float(), attention.key[sequence].float()
    key = key.repeat_interleave(len(query) // len(key), dim=0)
    scores = query @ key.transpose(1, 2) * attention.scaling
    if attention.softcap is not None:
        scores = attention.softcap * torch.tanh(scores / attention.softcap)
    back = rows[:, None] - torch.arange(key.shape[1], device=rows.device)
    seen = (back >= 0) & (documents[rows][:, None] == documents)
    if attention.window is not None:
        seen &= back < attention.window
    return scores.masked_fill(~seen, -torch.inf).softmax(-1)


def _attention_config(layer: Module) -> Any:
    """The configuration that names the implementation of a layer's attention."""
    for module in layer.modules():
        if hasattr(module, "config") and hasattr(module, "layer_idx"):
            return module.config
    raise UserError(
        f"aim: {type(layer).__name__} does not return its attention; use objective alm instead"
    )


class _Recorded(Exception):
    """Raised to leave a layer as soon as its attention is reached."""

    def __init__(self, attention: Attention):
        super().__init__()
        self.attention = attention


def _record(
    module: Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    softcap: float | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> None:
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    raise _Recorded(Attention(query, key, value, scaling, softcap, sliding_window))


AttentionInterface.register(_RECORDING, _record)
