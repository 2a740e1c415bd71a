"""Training of token distillation: input rows of new tokens from hidden states of their pieces."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from lexigraft.hardware import precision
from lexigraft.initialization.training_text import Snippet

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)


def distill(
    model: "PreTrainedModel",
    start: np.ndarray,
    training: Sequence[Snippet],
    validation: Sequence[Snippet],
    prefix: Sequence[int],
    rng: np.random.Generator,
    *,
    epochs: int,
    learning_rate: float,
    batch_size: int,
) -> tuple[np.ndarray, list[float]]:
    """Train the input rows of new tokens, see `TokenDistillation`; all else of the model is frozen.

    Returns the rows [k, h], float32, and the loss on the `validation` snippets before training and
    after each epoch.

    Parameters
    ----------
    model
        The source model, on the computing device.
    start
        [k, h] float32: the rows before training.
    prefix
        Source ids before every snippet.
    rng
        Generator of the order of the snippets.
    epochs, learning_rate, batch_size
        Epochs over the snippets, Adam's learning rate, and snippets per update.
    """
    import torch

    rows = torch.tensor(start, dtype=torch.float32, device=model.device, requires_grad=True)
    optimizer = torch.optim.Adam([rows], lr=learning_rate)

    @torch.no_grad()
    def validation_loss() -> float:
        total, values = 0.0, 0
        for begin in range(0, len(validation), batch_size):
            batch = validation[begin : begin + batch_size]
            squares, count = _squares(model, rows, batch, prefix)
            total += float(squares)
            values += count
        return total / values

    with _frozen(model):
        losses = [validation_loss()]
        for epoch in range(epochs):
            order = rng.permutation(len(training))
            starts = range(0, len(order), batch_size)
            for begin in tqdm(starts, desc=f"distill, epoch {epoch + 1}", disable=None):
                batch = [training[i] for i in order[begin : begin + batch_size]]
                squares, count = _squares(model, rows, batch, prefix)
                optimizer.zero_grad()
                (squares / count).backward()
                optimizer.step()
            losses.append(validation_loss())
            logger.info("epoch %d/%d: validation loss %.5f", epoch + 1, epochs, losses[-1])
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


def _squares(
    model: "PreTrainedModel",
    rows: "torch.Tensor",
    snippets: Sequence[Snippet],
    prefix: Sequence[int],
) -> tuple["torch.Tensor", int]:
    """Sum of squared differences of hidden states, and the number of them."""
    import torch

    source, source_mask = _padded([snippet.source for snippet in snippets], prefix)
    target, target_mask = _padded([snippet.target for snippet in snippets], prefix)
    compared = [np.flatnonzero(np.cumsum(snippet.target < 0)) for snippet in snippets]
    ends = [snippet.ends[at] - 1 for snippet, at in zip(snippets, compared, strict=True)]
    line = np.repeat(np.arange(len(snippets)), [len(at) for at in compared])
    in_target, in_source = (
        (torch.from_numpy(line), torch.from_numpy(np.concatenate(places) + len(prefix)))
        for places in (compared, ends)
    )
    with torch.no_grad():
        teacher = _hidden(model, source_mask, input_ids=source.to(model.device))[in_source]
    embedded = _embedded(model, rows, target.to(model.device))
    student = _hidden(model, target_mask, inputs_embeds=embedded)[in_target]
    return (student.float() - teacher.float()).square().sum(), teacher.numel()


def _padded(
    lines: Sequence[np.ndarray], prefix: Sequence[int]
) -> tuple["torch.Tensor", "torch.Tensor"]:
    """Lines of ids after `prefix`, padded with 0 on the right, and the attention mask."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    ids = [torch.tensor([*prefix, *line]) for line in lines]
    masks = [torch.ones_like(each) for each in ids]
    return pad_sequence(ids, batch_first=True), pad_sequence(masks, batch_first=True)


def _embedded(
    model: "PreTrainedModel", rows: "torch.Tensor", target: "torch.Tensor"
) -> "torch.Tensor":
    """Embeddings [n, length, h] of source ids, with the row of new token i at ids -1 - i."""
    import torch

    module: Any = model.get_input_embeddings()
    embedded = module(target.clamp(min=0))
    place = torch.nonzero(target < 0, as_tuple=True)
    # Some models scale embeddings when they look them up.
    values = rows[-1 - target[place]] * getattr(module, "embed_scale", 1.0)
    return embedded.index_put(place, values.to(embedded.dtype))


def _hidden(
    model: "PreTrainedModel", mask: "torch.Tensor", **given: "torch.Tensor"
) -> "torch.Tensor":
    """The last hidden states [n, length, h], the input of the head."""
    import torch

    low = precision() == torch.bfloat16
    with torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=low):
        found = model.base_model(attention_mask=mask.to(model.device), use_cache=False, **given)
    return found.last_hidden_state
