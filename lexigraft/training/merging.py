"""Merging a trained model with another one, so that a chat model still chats after training.

ElChat (Yamaguchi et al., TMLR 2025, arXiv 2412.11704) trains a chat model on plain text, then
interpolates the trained layers with those of the chat model and restores its special tokens. Chat
vectors (Huang et al., ACL 2024, arXiv 2310.04799) are differences of a chat and a base model.
"""

from collections.abc import Container
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.source.model import load_model, open_tokenizer, skeleton
from lexigraft.training.settings import Merging
from lexigraft.training.store import matrix_names, stored_dtype
from lexigraft.training.trainable import decoder_layers
from lexigraft.vocabulary.token_bytes import special_ids

_COLLINEAR = 0.9995  # the cosine above which mergekit and ElChat's code interpolate linearly


def slerp(start: torch.Tensor, end: torch.Tensor, weight: float) -> torch.Tensor:
    """Interpolate two tensors along the arc between them; `weight` 0 is `start`, 1 is `end`.

    The angle is that between the flattened tensors, whose norms are interpolated with them. Of
    nearly collinear tensors, for which the formula divides by almost zero, the result is linear.
    """
    norms = start.norm() * end.norm()
    cosine = (start * end).sum() / norms.clamp(min=torch.finfo(norms.dtype).tiny)
    if cosine.abs() > _COLLINEAR:
        return torch.lerp(start, end, weight)
    angle = torch.arccos(cosine)
    parts = torch.sin((1 - weight) * angle) * start + torch.sin(weight * angle) * end
    return parts / torch.sin(angle)


def layer_weights(model: PreTrainedModel, settings: Merging) -> dict[int, float]:
    """The other model's weight by index of the layer, from the front.

    Raises a UserError if the model does not have a layer.
    """
    count = len(decoder_layers(model))
    layers = settings.layers or range(count)
    if missing := [index for index in layers if not -count <= index < count]:
        raise UserError(
            f"merge.layers: layer {missing[0]} does not exist; the model has {count} layers"
        )
    # A single weight holds for all layers.
    weights = settings.weights * (len(layers) // len(settings.weights))
    return {index % count: weight for index, weight in zip(layers, weights, strict=True)}


def check_merged(source: Path, other: Path) -> None:
    """Raise a UserError unless two models have the same parameters and the same tokens."""
    shapes, other_shapes = (
        {name: parameter.shape for name, parameter in skeleton(folder).named_parameters()}
        for folder in (source, other)
    )
    if differing := [name for name in shapes if other_shapes.get(name) != shapes[name]]:
        raise UserError(
            f"merge.of: {differing[0]} of {other} does not have the shape of the source's; choose "
            "a model of the same family and size"
        )
    ids, other_ids = (open_tokenizer(folder).get_vocab() for folder in (source, other))
    if differing := [token for token in ids if other_ids.get(token) != ids[token]]:
        raise UserError(
            f"merge.of: the tokenizer of {other} has another id for {min(differing)!r}; choose a "
            "model with the source's tokenizer"
        )


@torch.no_grad()
def merge_models(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    settings: Merging,
    source: Path,
    other: Path,
    changed: Container[str],
    source_of: np.ndarray | None = None,
) -> set[str]:
    """Merge a trained `model` with the model in the folder `other`, in place.

    `source` is the folder of the model that was trained, `changed` the names of its parameters that
    differ from it, and `source_of` [rows] the source's row that each row of the model copies, -1
    for new tokens; None means that the rows are the source's. Returns the names of the parameters
    that may have changed.
    """
    dtype = stored_dtype(source)
    other_parameters = dict(load_model(other, dtype).named_parameters(remove_duplicate=False))
    source_parameters: dict[str, torch.nn.Parameter] = {}
    if settings.method == "add":
        source_model = load_model(source, dtype)
        source_parameters = dict(source_model.named_parameters(remove_duplicate=False))
    layers = decoder_layers(model)
    weights = {
        id(parameter): weight
        for index, weight in layer_weights(model, settings).items()
        for parameter in layers[index].parameters()
    }
    interpolate = slerp if settings.method == "slerp" else torch.lerp
    matrices, merged = matrix_names(model), set()
    for name, parameter in model.named_parameters():
        if name not in changed and source == other:  # equal in both models
            continue
        merged.add(name)
        other_value = other_parameters[name].to(parameter.device, torch.float32)
        value, difference = parameter.float(), None
        if settings.method == "add":
            difference = other_value - source_parameters[name].to(other_value)
            difference *= settings.weights[0]
        if name in matrices or other_value.shape != parameter.shape:  # a row for each token
            rows = np.arange(len(parameter)) if source_of is None else source_of
            copied = np.flatnonzero(rows >= 0)
            if difference is not None:
                value[copied] += difference[rows[copied]]
            if settings.special_tokens:
                special = [token for token in special_ids(tokenizer) if rows[token] >= 0]
                value[special] = other_value[rows[special]]
        elif difference is not None:
            value += difference
        else:
            # Outside the layers that are merged, the other model's values are taken.
            value = interpolate(value, other_value, weights.get(id(parameter), 1.0))
        parameter.copy_(value)
    return merged
