"""Logits and losses over large vocabularies, computed in chunks of positions.

The body of a model runs once. Its hidden states then go through the rest of the model's own
`forward`, chunk by chunk, including what an architecture does to its logits (Gemma 2 caps them,
Cohere scales them). Each chunk's gradient is computed with its loss (`chunk_gradients`), so no
logits are stored for the backward pass and none are computed twice.
"""

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist

from lexigraft.inference.batch_sizes import SHARE, free_memory
from lexigraft.inference.chunk_gradients import (
    LossAndGradients,
    SummedNLL,
    adding_linear,
    casts_each_weight_once,
)
from lexigraft.machine import setting

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IGNORED = -100  # label that losses ignore, by torch's convention
# Maximum number of elements in the logits of a chunk. Each chunk adds a gradient of the size of the
# head, so larger chunks are faster.
CHUNK_LOGITS = {"cpu": 2**27, "cuda": 2**28}
LEAST_LOGITS = 2**25  # smaller chunks free little: if these do not fit, something else is too large
_BYTES = 16  # per logit: in the model's precision, in float32, its loss and its gradients

Result = TypeVar("Result")
Loss = Callable[[torch.Tensor, slice], torch.Tensor]
logger = logging.getLogger(__name__)
# Half the elements of the last chunk that did not fit, by type of device.
_halved: dict[str, int] = {}


def chunked_logits(model: "PreTrainedModel", inputs: dict[str, Any]) -> "ChunkedLogits":
    """Run a model up to its head, to compute its logits in chunks of positions.

    The model must not be wrapped; `inputs` are arguments of its `forward`, including `input_ids`
    [batch, tokens].
    """
    head = model.get_output_embeddings()
    bodies: list[tuple[torch.nn.Module, Any]] = []  # and their outputs, the outermost last
    states: list[torch.Tensor] = []

    def record(body: torch.nn.Module, _: Any, output: Any) -> None:
        bodies.append((body, output))

    def narrow(_: Any, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor] | None:
        if not bodies or arguments[0].shape[:-1] != inputs["input_ids"].shape:
            return None
        states.append(arguments[0])
        return (arguments[0][:, :1],)  # one position is enough for the vocabulary size

    possible = {id(module): module for module in (model.base_model, model.get_decoder())}
    possible.pop(id(model), None)
    hooks = [body.register_forward_hook(record) for body in possible.values()]
    if head is not None:
        hooks.append(head.register_forward_pre_hook(narrow))
    try:
        logits = model(**inputs).logits
    finally:
        for hook in hooks:
            hook.remove()
    if len(states) != 1:
        return ChunkedLogits(logits, logits.shape[-1], None)
    return ChunkedLogits(states[0], logits.shape[-1], _Rest(model, head, *bodies[-1], inputs))


@dataclass(frozen=True)
class ChunkedLogits:
    """The hidden states of one forward pass, from which logits can be computed."""

    # [batch, tokens, hidden], the input of the head. If a model does not compute its logits with
    # its head, position by position, these are the logits themselves.
    states: torch.Tensor
    vocabulary: int  # logits per position
    _rest: "_Rest | None"

    @property
    def from_head(self) -> bool:
        """Whether the model's logits are those of its head."""
        return self._rest is not None

    def logits(self, states: torch.Tensor, head: torch.nn.Module | None = None) -> torch.Tensor:
        """The model's logits [n, vocabulary] of states [n, hidden].

        `head` replaces the model's own; what the model does after its head is still applied.
        """
        return states if self._rest is None else self._rest(states, head)

    def sum(
        self, places: torch.Tensor, loss: Loss, weight: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Sum a loss over positions, a scalar, and compute its gradient at the same time.

        `places` are the positions, [n] int64, as indices into the flattened [batch, tokens]. `loss`
        is called with the states [m, hidden] of a chunk of `places` and the chunk, and returns the
        loss summed over the chunk. It may be called again for a shorter chunk with the same start.
        The only trained parameters that it may use are those outside the model's body, such as
        those of its heads.

        With a `weight`, a positive scalar, the loss that `backward` is called on must contain the
        sum multiplied by this weight. A single process then adds the gradients of these parameters,
        times the weight, to their `.grad` here, without a second tensor of the size of the head.
        """
        if _has_peers():  # their gradients are combined with these
            weight = None
        parameters = self._rest.parameters() if self._rest and torch.is_grad_enabled() else []
        states = self.states.flatten(0, 1)[places]
        gradients = sum(parameter.nbytes for parameter in parameters)

        def in_chunks(compute: Callable[[slice], Result]) -> list[Result]:
            return self.in_chunks(len(places), compute, gradients)

        return LossAndGradients.apply(loss, in_chunks, weight, states, *parameters)

    def in_chunks(
        self, positions: int, compute: Callable[[slice], Result], memory: int = 0
    ) -> list[Result]:
        """Call `compute` on chunks of positions whose logits fit into memory, in order.

        There is at least one chunk, and all are of about the same length. `memory` is the bytes
        that `compute` needs in addition to the logits. `compute` must have no side effects before
        its last allocation: if a large chunk does not fit into the memory of a GPU, this chunk and
        later ones are split in two.
        """
        most = _chunk_logits(self.states.device, memory)
        count = max(1, math.ceil(positions * self.vocabulary / most))
        size = max(1, math.ceil(positions / count))
        rest = [slice(at, min(at + size, positions)) for at in range(0, positions or 1, size)]
        results = []
        while rest:
            chunk = rest[0]
            try:
                results.append(compute(chunk))
            except torch.OutOfMemoryError:
                if (chunk.stop - chunk.start) * self.vocabulary <= max(
                    LEAST_LOGITS, self.vocabulary
                ):
                    raise
            else:
                del rest[0]
                continue
            # Not in the handler: there the exception still holds the tensors of the chunk.
            torch.cuda.empty_cache()
            most = (chunk.stop - chunk.start) * self.vocabulary // 2
            logger.warning(
                "a chunk of logits does not fit into memory; from here on chunks have at most %d",
                most,
            )
            _halved[self.states.device.type] = most
            rest = [half for whole in rest for half in _halves(whole)]
        return results


def _halves(chunk: slice) -> list[slice]:
    middle = (chunk.start + chunk.stop) // 2
    halves = [slice(chunk.start, middle), slice(middle, chunk.stop)]
    return [half for half in halves if half.start < half.stop]


def _has_peers() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _chunk_logits(device: torch.device, memory: int) -> int:
    """The maximum elements in the logits of a chunk that needs `memory` more bytes."""
    most = setting("logits_chunk")
    if most is None:
        most = CHUNK_LOGITS[device.type]
        if device.type != "cpu":
            fitting = SHARE * (free_memory(device) - memory) / _BYTES
            # By powers of two, so that chunks, and their rounding, rarely change.
            while most > max(fitting, LEAST_LOGITS):
                most //= 2
    return min(most, _halved.get(device.type, most))


def sum_nll(
    readout: ChunkedLogits,
    targets: torch.Tensor,
    logits: Callable[[torch.Tensor], torch.Tensor] | None = None,
    weight: torch.Tensor | None = None,
) -> torch.Tensor:
    """Sum the negative log-likelihood of targets [batch, tokens] in nats, [1] float32.

    IGNORED targets are neither counted nor computed. `logits` computes logits [n, vocabulary] from
    states [n, hidden]; by default as the model does. For `weight`, see `ChunkedLogits.sum`.
    """
    targets = targets.flatten()
    places = targets.ne(IGNORED).nonzero()[:, 0]
    wanted = targets[places]

    def nats(states: torch.Tensor, chunk: slice) -> torch.Tensor:
        return SummedNLL.apply((logits or readout.logits)(states), wanted[chunk])

    return readout.sum(places, nats, weight)[None]


@torch.no_grad()
@casts_each_weight_once()
def per_position(
    readout: ChunkedLogits,
    wanted: torch.Tensor,
    compute: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Compute values from the logits of the `wanted` positions [batch, tokens], without gradient.

    `compute` is called with the float32 logits [n, vocabulary] of a chunk of positions and with
    their indices [n] in the flattened [batch, tokens], and returns float32 values [n, ...]. The
    result is [batch, tokens, ...], zero at other positions.
    """
    places = wanted.flatten().nonzero()[:, 0]
    states = readout.states.flatten(0, 1)[places]

    def score(chunk: slice) -> torch.Tensor:
        return compute(readout.logits(states[chunk]).float(), places[chunk])

    values = torch.cat(readout.in_chunks(len(places), score))
    found = values.new_zeros((wanted.numel(), *values.shape[1:]))
    found[places] = values
    return found.unflatten(0, wanted.shape)


def nll_per_token(readout: ChunkedLogits, targets: torch.Tensor) -> torch.Tensor:
    """The negative log-likelihood of each target in nats, [batch, tokens] float32, no gradient.

    IGNORED targets are zero and not computed.
    """
    flat = targets.flatten()

    def nats(logits: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(logits, flat[places], reduction="none")

    return per_position(readout, targets.ne(IGNORED), nats)


def targets_ahead(
    labels: torch.Tensor, ahead: int, positions: torch.Tensor | None = None
) -> torch.Tensor:
    """The label `ahead` positions after each one, [batch, tokens]; IGNORED where there is none.

    `positions` [batch, tokens] are the batch's `position_ids`, if it has them: labels of other
    documents are IGNORED too.
    """
    moved = torch.nn.functional.pad(labels, (0, ahead), value=IGNORED)[:, ahead:]
    if positions is None:
        return moved
    there = torch.nn.functional.pad(positions, (0, ahead), value=-1)[:, ahead:]
    return moved.where(there == positions + ahead, IGNORED)


@dataclass(frozen=True)
class _Rest:
    """A model from its head on: its own `forward`, with the recorded output of the body."""

    model: Any
    head: torch.nn.Module
    body: torch.nn.Module
    output: Any
    inputs: dict[str, Any]

    def __call__(self, states: torch.Tensor, head: torch.nn.Module | None) -> torch.Tensor:
        used = self.head if head is None else head
        # Read before it is replaced: calling the head would call the replacement.
        forward = adding_linear(used) or (self.head.forward if head is None else head)
        with (
            _replaced_forward(self.body, lambda *_, **__: self.output),
            _replaced_forward(self.head, lambda *_, **__: forward(states[None])),
        ):
            # The class's `forward`, without wrappers around the instance's.
            return type(self.model).forward(self.model, **self.inputs).logits.flatten(0, 1)

    def parameters(self) -> list[torch.nn.Parameter]:
        """Trained parameters from the head on, tied ones included."""
        inside = {id(p) for p in self.body.parameters()} - {id(p) for p in self.head.parameters()}
        return [p for p in self.model.parameters() if p.requires_grad and id(p) not in inside]


@contextmanager
def _replaced_forward(module: Any, forward: Callable[..., Any]) -> Iterator[None]:
    """Replace the `forward` of a module."""
    before = vars(module).get("forward")
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
        if before is not None:
            module.forward = before
