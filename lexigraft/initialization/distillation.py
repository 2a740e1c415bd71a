"""Token distillation: train rows of new tokens to match the hidden states of their pieces."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.func import functional_call
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm
from transformers import PreTrainedModel

from lexigraft.errors import UserError
from lexigraft.hardware import precision
from lexigraft.initialization.training_text import Snippet

logger = logging.getLogger(__name__)

_LOGITS_AT_ONCE = 1 << 25


def distill(
    model: PreTrainedModel,
    initial_rows: Mapping[str, np.ndarray],
    copied_ids: np.ndarray,
    training: Sequence[Snippet],
    validation: Sequence[Snippet],
    prefix: Sequence[int],
    rng: np.random.Generator,
    options: Any,
) -> tuple[dict[str, np.ndarray], list[float], list[float]]:
    """Train the rows of new tokens for the initializer `distill`; the model itself is frozen.

    `initial_rows` [k, h] float32 are the rows before training: `input` and, for an untied head that
    is trained, `output`. `copied_ids` are the source rows that the target vocabulary copies,
    ascending; `prefix` are source ids that precede every snippet; `options` are those of the
    initializer. Returns the trained rows, and the losses on validation snippets, before training
    and after each epoch: the mean squared difference of hidden states, and the cross-entropy of the
    head in nats per token.
    """
    input_rows = torch.tensor(
        initial_rows["input"], dtype=torch.float32, device=model.device, requires_grad=True
    )
    head = None
    if "output" in initial_rows:
        head = _Head(model, initial_rows["output"], copied_ids, training)
    parameters = [input_rows] if head is None else [input_rows, head.rows]
    optimizer = torch.optim.Adam(parameters, lr=options.learning_rate)
    batch_size, epochs = options.batch_size, options.epochs
    losses: list[float] = []
    head_losses: list[float] = []

    @torch.no_grad()
    def validate() -> None:
        totals, counts = np.zeros(2), np.zeros(2)
        for start in range(0, len(validation), batch_size):
            batch = _Batch(model, input_rows, validation[start : start + batch_size], prefix)
            squared_error, n_values = batch.squared_error()
            nats, n_tokens = head.cross_entropy(batch) if head else (0.0, 1)
            totals += float(squared_error), float(nats)
            counts += n_values, n_tokens
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
            for start in tqdm(starts, desc=f"distill, epoch {epoch + 1}", disable=None):
                snippets = [training[i] for i in order[start : start + batch_size]]
                batch = _Batch(model, input_rows, snippets, prefix)
                squared_error, n_values = batch.squared_error()
                optimizer.zero_grad()
                (squared_error / n_values).backward()
                if head:
                    nats, n_tokens = head.cross_entropy(batch)
                    if n_tokens:  # a single token has nothing to predict
                        (nats / n_tokens).backward()
                optimizer.step()
            validate()
            logger.info("epoch %d/%d: validation loss %.5f", epoch + 1, epochs, losses[-1])
    rows = {"input": input_rows.detach().cpu().numpy()}
    if head:
        rows["output"] = head.rows.detach().cpu().numpy()
    return rows, losses, head_losses


@contextmanager
def _frozen(model: PreTrainedModel) -> Iterator[None]:
    """The model in evaluation mode, without gradients for its parameters."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    was_training = model.training
    for parameter in trainable:
        parameter.requires_grad_(False)
    model.eval()
    try:
        yield
    finally:
        for parameter in trainable:
            parameter.requires_grad_(True)
        model.train(was_training)


class _Batch:
    """Snippets with new tokens, and the student's last hidden states `states` [n, length, h] on
    them.

    `ids` [n, length] are source ids, and -1 - i for new token i.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        rows: torch.Tensor,
        snippets: Sequence[Snippet],
        prefix: Sequence[int],
    ) -> None:
        self.model, self.snippets, self.prefix = model, snippets, prefix
        ids, self.mask = _padded([snippet.target for snippet in snippets], prefix)
        self.ids = ids.to(model.device)
        embedded = _embedded(model, rows, self.ids)
        self.states = _hidden(model, self.mask, inputs_embeds=embedded)

    def squared_error(self) -> tuple[torch.Tensor, int]:
        """Sum of squared differences from the teacher's hidden states, and their number."""
        model, snippets, prefix = self.model, self.snippets, self.prefix
        source, source_mask = _padded([snippet.source for snippet in snippets], prefix)
        compared = [np.flatnonzero(np.cumsum(snippet.target < 0)) for snippet in snippets]
        ends = [snippet.ends[at] - 1 for snippet, at in zip(snippets, compared, strict=True)]
        snippet_of_position = np.repeat(np.arange(len(snippets)), [len(at) for at in compared])
        in_target, in_source = (
            tuple(map(torch.from_numpy, (snippet_of_position, np.concatenate(at) + len(prefix))))
            for at in (compared, ends)
        )
        with torch.no_grad():
            teacher = _hidden(model, source_mask, input_ids=source.to(model.device))[in_source]
        return (self.states[in_target].float() - teacher.float()).square().sum(), teacher.numel()


class _Head:
    """Trainable rows [k, h] of new tokens in a head whose other weights are frozen.

    The softmax is over the tokens `copied_ids` and the new tokens that occur in the `training`
    snippets: other new tokens would only be trained to be unlikely.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        initial_rows: np.ndarray,
        copied_ids: np.ndarray,
        training: Sequence[Snippet],
    ) -> None:
        head: Any = model.get_output_embeddings()
        self.copied = torch.from_numpy(copied_ids).to(model.device)
        source_weight = head.weight.detach()
        biases = (
            source_weight.new_zeros(len(source_weight)) if head.bias is None else head.bias.detach()
        )
        self.new_bias = biases.float().mean()  # the bias that `graft` gives new tokens
        if len(copied_ids) < len(source_weight):
            source_weight, biases = source_weight[self.copied], biases[self.copied]
        self.weight, self.biases = source_weight.float(), biases.float()
        self.rows = torch.tensor(initial_rows, device=model.device, requires_grad=True)
        new_tokens = np.unique(-1 - np.concatenate([snippet.target for snippet in training]))
        self.used = torch.from_numpy(new_tokens[new_tokens >= 0]).to(model.device)  # ascending

    def cross_entropy(self, batch: _Batch) -> tuple[torch.Tensor, int]:
        """Summed nats of each token given the states before it, and the number of tokens."""
        has_predecessor = batch.mask[:, 1:].bool().to(batch.ids.device)
        states = batch.states[:, :-1][has_predecessor].detach().float()  # [n, h]
        targets = batch.ids[:, 1:][has_predecessor]
        size = max(1, _LOGITS_AT_ONCE // len(self.weight))
        log_totals, copied_logits = [], []
        with torch.no_grad():
            for state_block, target_block in zip(
                states.split(size), targets.split(size), strict=True
            ):
                logits = torch.nn.functional.linear(state_block, self.weight, self.biases)
                log_totals.append(logits.logsumexp(dim=1))
                index = torch.searchsorted(self.copied, target_block.clamp(min=0))
                copied_logits.append(logits.gather(1, index[:, None])[:, 0])
        all_new_logits = states @ self.rows[self.used].T + self.new_bias
        index = torch.searchsorted(self.used, -1 - targets).clamp(max=len(self.used) - 1)
        new_logits = all_new_logits.gather(1, index[:, None])[:, 0]
        log_total = torch.logaddexp(torch.cat(log_totals), all_new_logits.logsumexp(dim=1))
        target_logits = torch.where(targets < 0, new_logits, torch.cat(copied_logits))
        # New tokens that do not occur in training are not targets.
        counts = (targets >= 0) | torch.isin(-1 - targets, self.used)
        return (log_total - target_logits)[counts].sum(), int(counts.sum())


def _check_head(model: PreTrainedModel) -> None:
    """Raise a `UserError` if a model's logits are not the output of its linear head."""
    head: Any = model.get_output_embeddings()
    ids = torch.arange(8, device=model.device)[None]
    with torch.no_grad():
        states = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        logits = model(input_ids=ids, use_cache=False).logits
        is_linear = torch.allclose(head(states), logits, rtol=1e-2, atol=1e-2)
    if not is_linear:
        raise UserError(
            f"initializer 'distill': {type(model).__name__} changes the logits of its head, so its "
            "rows cannot be trained; set its option head: mean"
        )


def _padded(
    sequences: Sequence[np.ndarray], prefix: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences of ids after `prefix`, padded with 0 on the right, and the attention mask."""
    ids = [torch.tensor([*prefix, *sequence]) for sequence in sequences]
    masks = [torch.ones_like(sequence) for sequence in ids]
    return pad_sequence(ids, batch_first=True), pad_sequence(masks, batch_first=True)


def _embedded(model: PreTrainedModel, rows: torch.Tensor, target_ids: torch.Tensor) -> torch.Tensor:
    """Embeddings [n, length, h] of source ids, with the row of new token i at ids -1 - i."""
    module: Any = model.get_input_embeddings()
    # The row of padding gets no gradient; among new rows, its index is that of another token.
    padding, module.padding_idx = module.padding_idx, None
    embedded = module(target_ids.clamp(min=0))
    new_positions = torch.nonzero(target_ids < 0, as_tuple=True)
    # Some models scale or normalize what they look up, so their layer is called.
    new_embeddings = functional_call(module, {"weight": rows}, (-1 - target_ids[new_positions],))
    module.padding_idx = padding
    return embedded.index_put(new_positions, new_embeddings.to(embedded.dtype))


def _hidden(model: PreTrainedModel, mask: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
    """The last hidden states [n, length, h], the input of the head."""
    is_half = precision() == torch.bfloat16
    with torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=is_half):
        outputs = model.base_model(attention_mask=mask.to(model.device), use_cache=False, **inputs)
    return outputs.last_hidden_state
