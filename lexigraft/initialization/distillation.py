"""Learns input rows of new tokens with which a model reads them as it reads their source pieces.

Token distillation (Dobler, Elliott and de Melo 2025, arXiv 2505.20133), section 3.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from lexigraft.hardware import precision
from lexigraft.initialization.snippets import Snippet

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """Passes over the snippets, Adam's learning rate, and snippets in an update."""

    epochs: int
    learning_rate: float
    batch_size: int


def distill(
    model: "PreTrainedModel",
    start: np.ndarray,
    learned: Sequence[Snippet],
    watched: Sequence[Snippet],
    first: Sequence[int],
    settings: Settings,
    draws: np.random.Generator,
) -> tuple[np.ndarray, list[float]]:
    """Learn the input rows of new tokens; nothing else of the model changes.

    The model reads a snippet twice: as source tokens, and with the new tokens in their place. The
    loss is the mean squared difference of its last hidden states at the ends of all target tokens
    from the first new one on.

    Parameters
    ----------
    model
        The source model, on the device to compute on.
    start
        [k, h] float32: the rows before training.
    learned, watched
        What is learned from, and what the loss is watched on.
    first
        Source ids that are put before every snippet.
    draws
        Of the order of the snippets.

    Returns
    -------
    rows : ndarray [k, h], float32
    losses : list of float
        Of the watched snippets, before training and after each epoch.
    """
    import torch

    rows = torch.tensor(start, dtype=torch.float32, device=model.device, requires_grad=True)
    optimizer = torch.optim.Adam([rows], lr=settings.learning_rate)
    with _frozen(model):
        losses = [_mean_loss(model, rows, watched, first, settings.batch_size)]
        for epoch in range(settings.epochs):
            order = draws.permutation(len(learned))
            shown = range(0, len(order), settings.batch_size)
            for begin in tqdm(shown, desc=f"distill, epoch {epoch + 1}", disable=None):
                some = [learned[i] for i in order[begin : begin + settings.batch_size]]
                squares, count = _squares(model, rows, some, first)
                optimizer.zero_grad()
                (squares / count).backward()
                optimizer.step()
            losses.append(_mean_loss(model, rows, watched, first, settings.batch_size))
            logger.info("epoch %d of %d: watched loss %.5f", epoch + 1, settings.epochs, losses[-1])
    return rows.detach().cpu().numpy(), losses


@contextmanager
def _frozen(model: "PreTrainedModel") -> Iterator[None]:
    """The model in evaluation mode, without gradients for its own parameters."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    training = model.training
    for parameter in trained:
        parameter.requires_grad_(False)
    model.eval()
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
        model.train(training)


def _mean_loss(
    model: "PreTrainedModel",
    rows: "torch.Tensor",
    snippets: Sequence[Snippet],
    first: Sequence[int],
    batch_size: int,
) -> float:
    import torch

    total, values = 0.0, 0
    with torch.no_grad():
        for begin in range(0, len(snippets), batch_size):
            squares, count = _squares(model, rows, snippets[begin : begin + batch_size], first)
            total += float(squares)
            values += count
    return total / values


def _squares(
    model: "PreTrainedModel",
    rows: "torch.Tensor",
    snippets: Sequence[Snippet],
    first: Sequence[int],
) -> tuple["torch.Tensor", int]:
    """Sum of squared differences of hidden states, and over how many numbers."""
    import torch

    source, source_mask = _padded([snippet.source for snippet in snippets], first)
    target, target_mask = _padded([snippet.target for snippet in snippets], first)
    at = [np.flatnonzero(np.cumsum(snippet.target < 0)) for snippet in snippets]
    line = np.repeat(np.arange(len(snippets)), [len(places) for places in at])
    ends = [snippet.ends[places] - 1 for snippet, places in zip(snippets, at, strict=True)]
    here = torch.from_numpy(line), torch.from_numpy(np.concatenate(at) + len(first))
    there = torch.from_numpy(line), torch.from_numpy(np.concatenate(ends) + len(first))
    with torch.no_grad():
        teacher = _hidden(model, source_mask, input_ids=source.to(model.device))[there]
    embedded = _embedded(model, rows, target.to(model.device))
    student = _hidden(model, target_mask, inputs_embeds=embedded)[here]
    return (student.float() - teacher.float()).square().sum(), teacher.numel()


def _padded(
    lines: Sequence[np.ndarray], first: Sequence[int]
) -> tuple["torch.Tensor", "torch.Tensor"]:
    """Lines of ids behind `first`, padded with 0 on the right, and which of them are no padding."""
    import torch

    width = len(first) + max(len(line) for line in lines)
    ids = np.zeros((len(lines), width), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, line in enumerate(lines):
        size = len(first) + len(line)
        ids[row, :size] = [*first, *line]
        mask[row, :size] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


def _embedded(
    model: "PreTrainedModel", rows: "torch.Tensor", target: "torch.Tensor"
) -> "torch.Tensor":
    """Embeddings [n, length, h] of source ids, and of -1 - i the row of new token i."""
    import torch

    module: Any = model.get_input_embeddings()
    embedded = module(target.clamp(min=0))
    place = torch.nonzero(target < 0, as_tuple=True)
    # Some models scale rows where they look them up.
    values = rows[-1 - target[place]] * getattr(module, "embed_scale", 1.0)
    return embedded.index_put(place, values.to(embedded.dtype))


def _hidden(
    model: "PreTrainedModel", mask: "torch.Tensor", **given: "torch.Tensor"
) -> "torch.Tensor":
    """The last hidden states [n, length, h], as the head reads them."""
    import torch

    low = precision() == torch.bfloat16
    with torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=low):
        found = model.base_model(attention_mask=mask.to(model.device), use_cache=False, **given)
    return found.last_hidden_state
