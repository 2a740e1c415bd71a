"""The memory that a training will take, from running it on tensors that have no values.

The phases are prepared and a step of each is computed by the code that trains, at full size, on
torch's fake tensors: these have a shape and a dtype, and no memory. What is alive is counted.

Several GPUs are simulated too: one process of theirs runs, and what it would send goes nowhere.
Where a number depends on values, it is the largest possible one: every token of a pass is another
one and is predicted, every row of a sparse adapter has all of its entries.
"""

import copy
import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from scipy.sparse import csr_array
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import PretrainedConfig, PreTrainedModel

from lexigraft.hardware import PRECISION
from lexigraft.inference.chunked_logits import CHUNK_LOGITS
from lexigraft.initialization.recipe import Recipe
from lexigraft.source.model import auto_class
from lexigraft.training.adapted_layers import attach_adapters, with_auxiliary_loss
from lexigraft.training.distributed import Computation, shard, world_size
from lexigraft.training.frozen_weights import FrozenWeights
from lexigraft.training.objective import Objective, PhaseContext, Progress
from lexigraft.training.objectives.distill import LogitDistillation
from lexigraft.training.passes import pass_tokens, split_step
from lexigraft.training.phase import add_modules
from lexigraft.training.registry import objective
from lexigraft.training.settings import AdapterSettings, Phase, Strategy
from lexigraft.training.trainable import own_parameters, prepare_phase

_NO_MEMORY = ("data", "share", "learning_rate")  # keys of a phase


def simulated_peak(
    config: PretrainedConfig,
    strategy: Strategy,
    rows: int,
    *,
    tokens: int | None = None,
    gpus: int = 1,
    teacher: PretrainedConfig | None = None,
) -> int:
    """The most bytes that are alive on a GPU at any time of a training, over its phases.

    It computes in bfloat16, on a model of this configuration whose vocabulary has been changed to
    one of so many `rows`. What CUDA keeps for itself and what fragmentation costs come on top.

    Parameters
    ----------
    tokens
        The most tokens of a pass, by default as on a GPU; a single sequence may have more.
    gpus
        How many share the model (`LEXIGRAFT_SHARDED`). One of them is simulated: its shard, and
        the layers that it gathers.
    teacher
        The configuration of the model that teaches, if the strategy has one.
    """
    trained: set[str] = set()
    peak, before = 0, None
    with _as_on_a_gpu(), _processes(gpus):
        for phase in strategy.phases:
            settings = {name: value for name, value in phase if name not in _NO_MEMORY}
            if settings == before:  # as of ALMA, whose second phase reads another text
                continue
            before = settings
            model, loss, names = _prepared(config, strategy, phase, rows, trained, teacher)
            if phase.adapter is None:
                trained |= names
            passes = split_step(
                strategy.batch_sequences * [phase.length], tokens or pass_tokens("cuda"), gpus
            )[0]
            peak = max(peak, _peak_of(model, loss, phase, passes, strategy.optimizer))
    return peak


def _prepared(
    config: PretrainedConfig,
    strategy: Strategy,
    phase: Phase,
    rows: int,
    trained: set[str],
    teacher: PretrainedConfig | None,
) -> tuple[PreTrainedModel, Objective, set[str]]:
    """A model as a phase trains it, without weights; the objective; and what it trains."""
    new_ids = range(config.get_text_config().vocab_size, rows)
    with torch.device("meta"):
        model = _without_weights(config, torch.float32)
        if phase.adapter is None:
            model.resize_token_embeddings(rows, mean_resizing=False)
        else:
            _attach_adapters(model, rows, phase.adapter)
        frozen = FrozenWeights(model, None)
        frozen.hold(trained | set(own_parameters(model, phase)))
        with frozen.shown_as_float32():
            names, _ = prepare_phase(model, phase, new_ids)
        loss: Objective
        if phase.distill is not None and teacher is not None:
            loss = LogitDistillation(
                _without_weights(teacher, torch.bfloat16).requires_grad_(False), phase.distill, rows
            )
        else:
            # No other objective reads the tokenizer or the inputs before training.
            context = PhaseContext(model, None, strategy, phase, Progress(), {}, [])  # type: ignore[arg-type]
            loss = objective(phase.objective).for_phase(context)
        loss = with_auxiliary_loss(loss, model, phase)
    add_modules(model, loss, strategy)
    return model.train(), loss, set(names)


def _without_weights(config: PretrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    # A copy: resizing changes it.
    return auto_class(config).from_config(copy.deepcopy(config), dtype=dtype)


def _attach_adapters(model: PreTrainedModel, rows: int, settings: AdapterSettings) -> None:
    """Adapters from a recipe whose rows are as long as they get; those of a dense one are copies.

    The auxiliary loss is then of all rows.
    """
    source = model.config.get_text_config().vocab_size
    entries = min(settings.entries, source) if settings.form == "sparse" else 1
    columns = np.arange(rows)[:, None] % (source - entries + 1) + np.arange(entries)
    starts = np.arange(rows + 1) * entries
    left = csr_array((np.ones(rows * entries), columns.ravel(), starts), shape=(rows, source))
    tokenizer: Any = SimpleNamespace(get_vocab=lambda: {"last": rows - 1})
    attach_adapters(model, tokenizer, Recipe(left, None, np.arange(0)), settings)


def _peak_of(
    model: PreTrainedModel,
    loss: Objective,
    phase: Phase,
    passes: list[list[int]],
    optimizer: str,
) -> int:
    shape = (len(passes[0]), phase.length)
    entries = phase.adapter.entries if phase.adapter else 0
    computation = Computation(model)
    teacher = [loss.teacher] if isinstance(loss, LogitDistillation) else []
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        for one in (model, *teacher):
            _give_memory(one)
    if world_size() > 1:
        computation, loss = shard(computation, loss, torch.device("cpu"))
    own = [parameter for parameter in computation.parameters() if parameter.requires_grad]
    there = [t for one in (computation, *teacher) for t in (*one.parameters(), *one.buffers())]
    with mode, _Alive(there, entries) as alive:
        # AdamW's two, there from the first step on. A fused step makes no other tensor. Those of
        # embeddings never have 8 bits.
        usual = torch.uint8 if optimizer == "adamw-8bit" else torch.float32
        of_parameter = {id(p): usual for p in own}
        for module in computation.modules():
            if isinstance(module, torch.nn.Embedding):
                of_parameter[id(module.weight)] = torch.float32
        moments = [torch.zeros_like(p, dtype=of_parameter[id(p)]) for p in own for _ in range(2)]
        if len(passes) > 1:  # from the second on, there are gradients already
            for parameter in own:
                parameter.grad = torch.zeros_like(parameter)
        batch = {name: torch.ones(shape, dtype=torch.int64)
                 for name in ("input_ids", "attention_mask", "labels")}  # fmt: skip
        weights = torch.ones(loss.count_targets(batch).shape)
        losses = computation(loss.losses, batch, weights if world_size() == 1 else None)
        loss.total(losses).backward()
        del batch, losses
        torch.nn.utils.clip_grad_norm_(own, 1.0)
        del moments
    return alive.peak


@contextmanager
def _processes(number: int) -> Iterator[None]:
    """As the first one of several processes, of which there are no others."""
    if number == 1:
        yield
        return
    # Both register what they have: a group that sends nothing, and collectives of fake tensors.
    import torch.distributed._tools.fake_collectives
    import torch.testing._internal.distributed.fake_pg  # noqa: F401

    dist.init_process_group("fake", rank=0, world_size=number, store=dist.HashStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


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
    """Counts the bytes of the storages that are alive; `tensors` are there from the beginning.

    Rows of sparse adapters have so many `entries`.
    """

    def __init__(self, tensors: Iterable[torch.Tensor], entries: int):
        super().__init__()
        self.now = self.peak = 0
        self.sizes: dict[int, int] = {}
        self.entries = entries
        self._count(tensors)

    def __enter__(self):
        # FSDP frees and refills what it gathers by resizing, which is no operation on tensors.
        self.resize = resize = torch.UntypedStorage.resize_

        def counted(storage, size):
            resize(storage, size)
            self._update(storage)

        torch.UntypedStorage.resize_ = counted
        return super().__enter__()

    def __exit__(self, *raised):
        torch.UntypedStorage.resize_ = self.resize
        return super().__exit__(*raised)

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        # What depends on values is as large as it can be.
        if function is torch.ops.aten.nonzero.default:
            found = torch.arange(arguments[0].numel())[:, None]
        elif function is torch.ops.aten._unique2.default:
            every = torch.arange(arguments[0].numel())
            found = every, every.view_as(arguments[0]).clone(), every[:0]
        elif function is torch.ops.aten.repeat_interleave.Tensor:
            found = torch.arange(len(arguments[0]) * self.entries) // self.entries
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
            local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
            self._update(local.untyped_storage())

    def _update(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self.sizes:
            weakref.finalize(storage, self._forget, key)
        self.now += size - self.sizes.get(key, 0)
        self.sizes[key] = size
        self.peak = max(self.peak, self.now)

    def _forget(self, key: int) -> None:
        self.now -= self.sizes.pop(key)
