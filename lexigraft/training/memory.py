"""The memory that a training will take, from running it on tensors that have no values.

The phases are prepared and a step of each is computed by the code that trains, at full size, on
torch's fake tensors: these have a shape and a dtype, and no memory. What is alive is counted.
"""

import copy
import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import PretrainedConfig, PreTrainedModel

from lexigraft.hardware import PRECISION
from lexigraft.inference.chunked_logits import CHUNK_LOGITS
from lexigraft.source.model import auto_class
from lexigraft.training.distributed import Computation
from lexigraft.training.frozen_weights import FrozenWeights
from lexigraft.training.objective import Objective, PhaseContext, Progress
from lexigraft.training.passes import pass_tokens, split_step
from lexigraft.training.phase import add_modules
from lexigraft.training.registry import objective
from lexigraft.training.settings import Phase, Strategy
from lexigraft.training.trainable import own_parameters, prepare_phase

_MOST_PASSES = 2  # of a step: from the second on, there are gradients already


def simulated_peak(config: PretrainedConfig, strategy: Strategy, rows: int) -> int:
    """The most bytes that are alive on a GPU at any time of a training, over its phases.

    It computes in bfloat16, on a model of this configuration whose vocabulary has been expanded to
    so many `rows`. What CUDA keeps for itself and what fragmentation costs come on top.
    """
    trained: set[str] = set()
    peak = 0
    with _as_on_a_gpu():
        for phase in strategy.phases:
            model, loss, names = _prepared(config, strategy, phase, rows, trained)
            trained |= names
            peak = max(peak, _peak_of(model, loss, strategy, phase))
    return peak


def _prepared(
    config: PretrainedConfig, strategy: Strategy, phase: Phase, rows: int, trained: set[str]
) -> tuple[PreTrainedModel, Objective, set[str]]:
    """A model as a phase trains it, without weights; the objective; and what it trains."""
    new_ids = range(config.get_text_config().vocab_size, rows)
    with torch.device("meta"):
        # A copy: resizing changes it.
        model = auto_class(config).from_config(copy.deepcopy(config), dtype=torch.float32)
        model.resize_token_embeddings(rows, mean_resizing=False)
        frozen = FrozenWeights(model, None)
        frozen.hold(trained | set(own_parameters(model, phase)))
        with frozen.shown_as_float32():
            names, _ = prepare_phase(model, phase, new_ids)
        # No objective reads the tokenizer before training; a teacher would be an input.
        context = PhaseContext(model, None, strategy, phase, Progress(), {}, [])  # type: ignore[arg-type]
        loss = objective(phase.objective).for_phase(context)
    add_modules(model, loss, strategy)
    return model.train(), loss, set(names)


def _peak_of(model: PreTrainedModel, loss: Objective, strategy: Strategy, phase: Phase) -> int:
    step = strategy.batch_sequences * [phase.length]
    [passes] = split_step(step, pass_tokens("cuda"))
    shape = (len(passes[0]), phase.length)
    with FakeTensorMode(allow_non_fake_inputs=True):
        _give_memory(model)
        computation = Computation(model)
        own = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(own, fused=True)
        with _Alive([*model.parameters(), *model.buffers()]) as alive:
            # AdamW has its moments from the first step on.
            for parameter in own:
                parameter.grad = torch.zeros_like(parameter)
            optimizer.step()
            optimizer.zero_grad()
            for _ in passes[:_MOST_PASSES]:
                batch = {name: torch.ones(shape, dtype=torch.int64)
                         for name in ("input_ids", "attention_mask", "labels")}  # fmt: skip
                weights = torch.ones(len(loss.targets(batch)))
                losses = computation(loss.losses, batch, weights)
                loss.total(losses).backward()
                del batch, losses
            torch.nn.utils.clip_grad_norm_(own, 1.0)
            optimizer.step()
    return alive.peak


@contextmanager
def _as_on_a_gpu() -> Iterator[None]:
    """What depends on the hardware is as on a GPU: fake tensors are on the CPU."""
    before, precision = CHUNK_LOGITS["cpu"], os.environ.get(PRECISION)
    CHUNK_LOGITS["cpu"], os.environ[PRECISION] = CHUNK_LOGITS["cuda"], "bfloat16"
    try:
        yield
    finally:
        CHUNK_LOGITS["cpu"] = before
        if precision is None:
            del os.environ[PRECISION]
        else:
            os.environ[PRECISION] = precision


def _give_memory(model: PreTrainedModel) -> None:
    """Fake tensors in the place of those of the meta device; tied ones stay tied."""
    given: dict[int, tuple[Any, Any]] = {}  # the old tensors stay alive, so that ids differ
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, old in tensors.items():
                if old is None:
                    continue
                if id(old) not in given:
                    new = torch.zeros(old.shape, dtype=old.dtype)
                    if isinstance(old, torch.nn.Parameter):
                        new = torch.nn.Parameter(new, requires_grad=old.requires_grad)
                    given[id(old)] = new, old
                tensors[name] = given[id(old)][0]


class _Alive(TorchDispatchMode):
    """Counts the bytes of the storages that are alive; `tensors` are there from the beginning."""

    def __init__(self, tensors: Iterable[torch.Tensor]):
        super().__init__()
        self.now = self.peak = 0
        self.known: set[int] = set()
        self._count(tensors)

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        # Which labels count and which tokens are new depends on values: here it is all of them.
        if function is torch.ops.aten.nonzero.default:
            found = torch.arange(arguments[0].numel())[:, None]
        elif function is torch.ops.aten.index.Tensor:
            tensor, places = arguments
            places = [torch.arange(len(place)) if place is not None and place.dtype == torch.bool
                      else place for place in places]  # fmt: skip
            found = function(tensor, places)
        else:
            found = function(*arguments, **(named or {}))
        self._count(one for one in tree_leaves(found) if isinstance(one, torch.Tensor))
        return found

    def _count(self, tensors: Iterable[torch.Tensor]) -> None:
        for tensor in tensors:
            storage = tensor.untyped_storage()
            key, size = storage._cdata, storage.nbytes()
            if key not in self.known:
                self.known.add(key)
                self.now += size
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self.known.remove(key)
        self.now -= size
