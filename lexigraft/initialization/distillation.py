"""Token distillation: train rows of new tokens to match the hidden states of their pieces."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from lexigraft.errors import UserError
from lexigraft.hardware import precision
from lexigraft.initialization.training_text import Snippet

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)

_LOGITS_AT_ONCE = 1 << 25


@dataclass(frozen=True)
class Distilled:
    """Trained rows of new tokens, and the losses on validation snippets.

    Losses are measured before training and after each epoch: the mean squared difference of hidden
    states, and the cross-entropy per token in nats. If the head is not trained, it has neither rows
    nor losses.
    """

    input: np.ndarray  # [k, h] float32
    losses: list[float]
    output: np.ndarray | None  # [k, h] float32
    head_losses: list[float]


def distill(
    model: "PreTrainedModel",
    start: np.ndarray,
    head_start: np.ndarray | None,
    copied: np.ndarray,
    training: Sequence[Snippet],
    validation: Sequence[Snippet],
    prefix: Sequence[int],
    rng: np.random.Generator,
    *,
    epochs: int,
    learning_rate: float,
    batch_size: int,
) -> Distilled:
    """Train the rows of new tokens, see `TokenDistillation`; the rest of the model is frozen.

    Parameters
    ----------
    model
        The source model, on the computing device.
    start
        [k, h] float32: the input rows before training.
    head_start
        The same for an untied head whose rows are trained; None for a head that is not trained.
    copied
        The source rows that the target vocabulary copies, ascending.
    prefix
        Source ids that precede every snippet.
    rng
        Random generator for the order of the snippets.
    epochs, learning_rate, batch_size
        Epochs over the snippets, Adam's learning rate, and snippets per update.
    """
    import torch

    rows = torch.tensor(start, dtype=torch.float32, device=model.device, requires_grad=True)
    head = None if head_start is None else _Head(model, head_start, copied, training)
    trained = [rows] if head is None else [rows, head.rows]
    optimizer = torch.optim.Adam(trained, lr=learning_rate)
    losses: list[float] = []
    head_losses: list[float] = []

    @torch.no_grad()
    def validate() -> None:
        totals, counts = np.zeros(2), np.zeros(2)
        for begin in range(0, len(validation), batch_size):
            batch = _Batch(model, rows, validation[begin : begin + batch_size], prefix)
            both = (batch.squares(), (head.cross_entropy(batch) if head else (0.0, 1)))
            totals += [float(total) for total, _ in both]
            counts += [count for _, count in both]
        losses.append(float(totals[0] / counts[0]))
        if head:
            head_losses.append(float(totals[1] / max(counts[1], 1)))

    with _frozen(model):
        if head:
            _check_head(model)
        validate()
        for epoch in range(epochs):
            order = rng.permutation(len(training))
            starts = range(0, len(order), batch_size)
            for begin in tqdm(starts, desc=f"distill, epoch {epoch + 1}", disable=None):
                snippets = [training[i] for i in order[begin : begin + batch_size]]
                batch = _Batch(model, rows, snippets, prefix)
                squares, count = batch.squares()
                optimizer.zero_grad()
                (squares / count).backward()
                if head:
                    nats, tokens = head.cross_entropy(batch)
                    if tokens:  # a single token has nothing to predict
                        (nats / tokens).backward()
                optimizer.step()
            validate()
            logger.info("epoch %d/%d: validation loss %.5f", epoch + 1, epochs, losses[-1])
    output = None if head is None else head.rows.detach().cpu().numpy()
    return Distilled(rows.detach().cpu().numpy(), losses, output, head_losses)


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


class _Batch:
    """Snippets with new tokens, and the student's last hidden states on them.

    `states` [n, length, h] are the hidden states, and `ids` [n, length] the input: source ids, and
    -1 - i for new token i.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        rows: "torch.Tensor",
        snippets: Sequence[Snippet],
        prefix: Sequence[int],
    ) -> None:
        self.model, self.snippets, self.prefix = model, snippets, prefix
        ids, self.mask = _padded([snippet.target for snippet in snippets], prefix)
        self.ids = ids.to(model.device)
        embedded = _embedded(model, rows, self.ids)
        self.states = _hidden(model, self.mask, inputs_embeds=embedded)

    def squares(self) -> tuple["torch.Tensor", int]:
        """Sum of squared differences from the teacher's hidden states, and their number."""
        import torch

        model, snippets, prefix = self.model, self.snippets, self.prefix
        source, source_mask = _padded([snippet.source for snippet in snippets], prefix)
        compared = [np.flatnonzero(np.cumsum(snippet.target < 0)) for snippet in snippets]
        ends = [snippet.ends[at] - 1 for snippet, at in zip(snippets, compared, strict=True)]
        line = np.repeat(np.arange(len(snippets)), [len(at) for at in compared])
        in_target, in_source = (
            (torch.from_numpy(line), torch.from_numpy(np.concatenate(places) + len(prefix)))
            for places in (compared, ends)
        )
        with torch.no_grad():
            teacher = _hidden(model, source_mask, input_ids=source.to(model.device))[in_source]
        return (self.states[in_target].float() - teacher.float()).square().sum(), teacher.numel()


class _Head:
    """Trainable rows [k, h] of new tokens in a head whose other weights are frozen.

    The softmax is over the `copied` tokens and the new tokens that occur in the `training`
    snippets: other new tokens would only be trained to be unlikely.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        start: np.ndarray,
        copied: np.ndarray,
        training: Sequence[Snippet],
    ) -> None:
        import torch

        old: Any = model.get_output_embeddings()
        self.copied = torch.from_numpy(copied).to(model.device)
        weight = old.weight.detach()
        biases = weight.new_zeros(len(weight)) if old.bias is None else old.bias.detach()
        self.new_bias = biases.float().mean()  # the bias that `graft` gives new tokens
        if len(copied) < len(weight):
            weight, biases = weight[self.copied], biases[self.copied]
        self.weight, self.biases = weight.float(), biases.float()
        self.rows = torch.tensor(start, device=model.device, requires_grad=True)
        new = np.unique(-1 - np.concatenate([snippet.target for snippet in training]))
        self.used = torch.from_numpy(new[new >= 0]).to(model.device)  # ascending

    def cross_entropy(self, batch: _Batch) -> tuple["torch.Tensor", int]:
        """Summed nats of each token given the states before it, and the number of tokens."""
        import torch

        known = batch.mask[:, 1:].bool().to(batch.ids.device)
        states = batch.states[:, :-1][known].detach().float()  # [n, h]
        targets = batch.ids[:, 1:][known]
        size = max(1, _LOGITS_AT_ONCE // len(self.weight))
        totals, chosen = [], []
        with torch.no_grad():
            for some, own in zip(states.split(size), targets.split(size), strict=True):
                logits = torch.nn.functional.linear(some, self.weight, self.biases)
                totals.append(logits.logsumexp(dim=1))
                place = torch.searchsorted(self.copied, own.clamp(min=0))
                chosen.append(logits.gather(1, place[:, None])[:, 0])
        new = states @ self.rows[self.used].T + self.new_bias
        place = torch.searchsorted(self.used, -1 - targets).clamp(max=len(self.used) - 1)
        of_new = new.gather(1, place[:, None])[:, 0]
        total = torch.logaddexp(torch.cat(totals), new.logsumexp(dim=1))
        taken = torch.where(targets < 0, of_new, torch.cat(chosen))
        # New tokens that do not occur in training are not targets.
        seen = (targets >= 0) | torch.isin(-1 - targets, self.used)
        return (total - taken)[seen].sum(), int(seen.sum())


def _check_head(model: "PreTrainedModel") -> None:
    """Raise a `UserError` if a model's logits are not the output of its linear head."""
    import torch

    head: Any = model.get_output_embeddings()
    ids = torch.arange(8, device=model.device)[None]
    with torch.no_grad():
        states = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        logits = model(input_ids=ids, use_cache=False).logits
        same = torch.allclose(head(states), logits, rtol=1e-2, atol=1e-2)
    if not same:
        raise UserError(
            f"initializer 'distill': {type(model).__name__} changes the logits of its head, so its "
            "rows cannot be trained; set its option head: mean"
        )


def _padded(
    lines: Sequence[np.ndarray], prefix: Sequence[int]
) -> tuple["torch.Tensor", "torch.Tensor"]:
    """Sequences of ids after `prefix`, padded with 0 on the right, and the attention mask."""
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
    from torch.func import functional_call

    module: Any = model.get_input_embeddings()
    # The row of padding gets no gradient; among new rows, its index is that of another token.
    padding, module.padding_idx = module.padding_idx, None
    embedded = module(target.clamp(min=0))
    place = torch.nonzero(target < 0, as_tuple=True)
    # Some models scale or normalize what they look up, so their layer is called.
    values = functional_call(module, {"weight": rows}, (-1 - target[place],))
    module.padding_idx = padding
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
