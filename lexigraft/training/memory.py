"""How a training uses the memory of its GPU: chosen before it begins, by a simulation.

Training's own functions prepare the phases and compute a step of each, at full size, on torch's
fake tensors, which have a shape and a dtype but no memory. The bytes of live tensors are counted;
where a size depends on values, it is the largest possible one. The choices change results only by
rounding. Machine settings take precedence; nothing is chosen on a CPU or for several GPUs.
"""

import copy
import logging
import os
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
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

from lexigraft.hardware import PRECISION, device, only_cpu, precision
from lexigraft.inference.batch_sizes import free_memory
from lexigraft.inference.chunked_logits import LEAST_LOGITS, chunk_sizes
from lexigraft.initialization.recipe import Recipe
from lexigraft.machine import setting
from lexigraft.source.model import auto_class
from lexigraft.source.token_tables import (
    empty_tables,
    resize_vocabulary,
    set_tables,
    token_tables,
)
from lexigraft.training.chunk_distillation import ChunkDistillation
from lexigraft.training.data import TeacherTokens, TrainingSequence, collate
from lexigraft.training.distributed import Computation, modules_of, shard, world_size
from lexigraft.training.objective import Objective, PhaseContext, Progress
from lexigraft.training.phase import (
    PhaseMemory,
    default_memory,
    micro_batch_tokens,
    recompute_layers,
    split_step,
)
from lexigraft.training.registry import objective
from lexigraft.training.settings import AdapterSettings, Phase, Strategy
from lexigraft.training.trainable import FrozenWeights
from lexigraft.training.vocadt_adapter import (
    WithAuxiliaryLoss,
    attach_adapters,
    with_auxiliary_loss,
)

logger = logging.getLogger(__name__)
# Share of the free memory that training may use. The rest is for fragmentation and what libraries
# allocate for themselves; more than inference uses, since the simulation counts every tensor.
TRAINING_MEMORY_SHARE = 0.92
# Larger micro-batches are hardly faster.
MOST_TOKENS = 2**14
# Shares of the layers that are recomputed, from the fastest to the one that saves most memory.
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def plan_memory(
    config: PretrainedConfig,
    strategy: Strategy,
    rows: int,
    *,
    offload: bool,
    free: int | None = None,
    **parts: Any,
) -> list[PhaseMemory]:
    """Choose how each phase of a training uses this process's device, and log the choice.

    `config`, `strategy`, `rows` and `parts` are arguments of `simulated_phases`; `free` are the
    free bytes of the GPU before the model is loaded, measured by default.
    """
    if free is None and device().type == "cuda" and world_size() == 1:
        free = free_memory(device())
    default = default_memory(device().type if free is None else "cuda")
    plan = [default for _ in strategy.phases]
    if free is None or not plan:
        return plan
    start, usable = time.monotonic(), int(TRAINING_MEMORY_SHARE * free)
    try:
        phases = simulated_phases(config, strategy, rows, dtype=precision(), **parts)
        chosen = [_fitting_memory(phase, usable, offload) for phase in phases]
    except Exception as error:  # whatever fake tensors do not support
        logger.warning("memory cannot be simulated (%s); the defaults are used", error)
        return plan
    if None in chosen:
        logger.warning(
            "this training may not fit into the %.1f GiB of its GPU; with LEXIGRAFT_OFFLOAD=true, "
            "trained weights are kept in the machine's memory",
            free / 2**30,
        )
    smallest = PhaseMemory(setting("pass_tokens") or 1, default.recompute)
    plan = [memory or smallest for memory in chosen]
    descriptions = dict.fromkeys(
        f"micro-batches of {max(memory.tokens, phase.length)} tokens"
        + f", {memory.recompute:.0%} of the layers recomputed" * strategy.gradient_checkpointing
        for memory, phase in zip(plan, strategy.phases, strict=True)
    )
    seconds = time.monotonic() - start
    logger.info("%s (simulated in %.0f s)", "; then ".join(descriptions), seconds)
    return plan


def _fitting_memory(simulated: "SimulatedPhase", usable: int, offload: bool) -> PhaseMemory | None:
    """The fastest way to use memory that fits into `usable` bytes; None if nothing fits."""
    default, phase = default_memory("cuda"), simulated.phase

    def fits(tokens: int, share: float, **options: Any) -> bool:
        peak = simulated.peak(tokens, recompute=share, offload=offload, **options)
        return peak <= usable

    shares = _SHARES if setting("recompute") is None else (default.recompute,)
    shares = shares if simulated.strategy.gradient_checkpointing else (0.0,)
    for share in shares:
        if fits(default.tokens, share):
            largest = min(MOST_TOKENS, phase.batch_sequences * phase.length)
            grows = share == 0 and not setting("pass_tokens")
            for tokens in (largest, largest // 2) if grows else ():
                # A step of several micro-batches has gradients of earlier ones.
                if tokens > default.tokens and fits(tokens, share, later=True):
                    return PhaseMemory(tokens, share)
            return PhaseMemory(default.tokens, share)
    tokens = default.tokens
    while not fits(tokens, shares[-1], logits=LEAST_LOGITS, later=tokens < default.tokens):
        if setting("pass_tokens") or tokens <= phase.length:
            return None
        tokens = max(tokens // 2, phase.length)
    return PhaseMemory(tokens, shares[-1])


def simulated_phases(
    config: PretrainedConfig,
    strategy: Strategy,
    rows: int,
    *,
    dtype: torch.dtype = torch.bfloat16,
    tokenizer: Any = None,
    teacher: PretrainedConfig | None = None,
) -> list["SimulatedPhase"]:
    """The phases of a training in the precision `dtype`, without weights.

    `config` is that of the source, whose vocabulary is changed to one of `rows` rows, and `teacher`
    that of the teacher, if there is one. Few objectives need tokenizers to be created.
    """
    tokenizer = tokenizer or SimpleNamespace(get_vocab=lambda: {"last": rows - 1})
    empty_teacher = teacher and SimpleNamespace(
        config=teacher, model=lambda: _empty_model(teacher, precision()).requires_grad_(False)
    )
    new_ids = range(config.get_text_config().vocab_size, rows)
    trained: set[str] = set()
    phases = []
    with _like_a_gpu(dtype):
        for phase in strategy.phases:
            with torch.device("meta"):
                model = _empty_model(config, torch.float32)
                if phase.adapter is None:
                    set_tables(model, empty_tables(model, token_tables(model), rows))
                    resize_vocabulary(model, rows)
                else:
                    recipe = _largest_recipe(model, rows, phase.adapter)
                    attach_adapters(model, tokenizer, recipe, phase.adapter)
                names, _ = FrozenWeights(model, None).prepare_phase(model, phase, trained, new_ids)
                context = PhaseContext(
                    model, tokenizer, strategy, phase, Progress(), [], empty_teacher
                )
                loss = objective(phase.objective).for_phase(context)
                loss = with_auxiliary_loss(loss, model, phase)
            for name, module in loss.modules().items():
                model.add_module(name, module)
            if phase.adapter is None:
                trained |= set(names)
            phases.append(SimulatedPhase(model.train(), loss, strategy, phase, dtype))
    return phases


@dataclass(eq=False)
class SimulatedPhase:
    """A model prepared for a phase, and the objective, on tensors without values."""

    model: PreTrainedModel
    loss: Objective
    strategy: Strategy
    phase: Phase
    dtype: torch.dtype

    def __post_init__(self) -> None:
        inside = set(self.model.modules())
        self.outside = [module for module in modules_of(self.loss) if module not in inside]
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        with self.mode:
            for module in (self.model, *self.outside):
                _allocate(module)

    @property
    def trained(self) -> int:
        """The number of trained parameters."""
        return sum(p.numel() for p in self.model.parameters() if p.requires_grad)

    def peak(
        self,
        tokens: int | None = None,
        *,
        gpus: int = 1,
        offload: bool = False,
        recompute: float = 1.0,
        logits: int | None = None,
        later: bool = False,
    ) -> int:
        """The peak bytes of a step on a GPU, without CUDA's own memory and fragmentation.

        A micro-batch has at most `tokens` tokens, by default as on a GPU, or a single sequence. The
        model may be sharded over several `gpus`, of which one is simulated; with `offload`, trained
        parameters are in the memory of the machine. A share `recompute` of the layers is
        recomputed. `logits` are the maximum elements of a chunk's logits. With `later`, there are
        gradients of an earlier micro-batch even if a step has only one.
        """
        strategy, phase = self.strategy, self.phase
        if strategy.gradient_checkpointing:
            recompute_layers(self.model, recompute)
        lengths = phase.batch_sequences * [phase.length]
        micro_batches = split_step(lengths, tokens or micro_batch_tokens("cuda"), gpus)[0]
        later = later or len(micro_batches) > 1
        computation, loss = Computation(self.model), self.loss
        with ExitStack() as stack:
            stack.enter_context(_like_a_gpu(self.dtype, logits))
            if offload or gpus > 1:
                stack.enter_context(_first_of(gpus))
                cpu = torch.device("cpu")
                computation, loss = shard(computation, loss, cpu, offload=offload)
            trained = [p for p in computation.parameters() if p.requires_grad]
            modules = (computation, *self.outside)
            tensors = [t for module in modules for t in (*module.parameters(), *module.buffers())]
            entries = phase.adapter.entries if phase.adapter else 0
            stack.enter_context(self.mode)
            live = stack.enter_context(_LiveBytes(tensors, trained if offload else (), entries))
            # AdamW's two moments. Fused steps create no other tensor.
            moments = [torch.zeros_like(p) for p in ([] if offload else trained) for _ in range(2)]
            if later and not offload:
                for parameter in trained:
                    parameter.grad = torch.zeros_like(parameter)
            batch = _largest_batch(loss, len(micro_batches[0]), phase.length)
            weights = torch.ones(loss.count_targets(batch).shape)
            losses = computation(loss.losses, batch, weights)
            loss.total(losses).backward()
            del batch, losses
            if not offload:
                torch.nn.utils.clip_grad_norm_(trained, strategy.gradient_clipping)
            del moments
            computation.zero_grad()
        return live.peak


def _empty_model(config: PretrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    # A copy, since resizing changes it.
    return auto_class(config).from_config(copy.deepcopy(config), dtype=dtype)


def _largest_recipe(model: PreTrainedModel, rows: int, adapter: AdapterSettings) -> Recipe:
    """A recipe with the longest possible rows; for dense adapters, copies."""
    source = model.config.get_text_config().vocab_size
    entries = min(adapter.entries, source) if adapter.form == "sparse" else 1
    columns = np.arange(rows)[:, None] % (source - entries + 1) + np.arange(entries)
    starts = np.arange(rows + 1) * entries
    left = csr_array((np.ones(rows * entries), columns.ravel(), starts), shape=(rows, source))
    return Recipe(left, None, np.arange(0))


def _largest_batch(loss: Objective, sequences: int, length: int) -> dict[str, torch.Tensor]:
    """The micro-batch of sequences of a length that takes the most memory."""
    while isinstance(loss, WithAuxiliaryLoss):
        loss = loss.objective
    sequence = TrainingSequence(np.ones(length, np.int32))
    if isinstance(loss, ChunkDistillation):  # as many tokens as the teacher may read, all in chunks
        ones = np.ones(loss.teacher_length, np.int32)
        sequence = TrainingSequence(
            sequence.tokens, teacher=TeacherTokens(ones, ones, sequence.tokens)
        )
    return collate(sequences * [sequence])


@contextmanager
def _first_of(number: int) -> Iterator[None]:
    """Simulate being the first of `number` processes; the others do not exist."""
    # Importing registers a group that sends nothing, and collectives of fake tensors.
    import torch.testing._internal.distributed.fake_pg

    if number > 1:
        import torch.distributed._tools.fake_collectives  # noqa: F401

    dist.init_process_group("fake", rank=0, world_size=number, store=dist.HashStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def _like_a_gpu(dtype: torch.dtype, logits: int | None = None) -> Iterator[None]:
    """Use the precision and the chunks of a GPU for fake tensors, which are on the CPU."""
    previous = os.environ.get(PRECISION)
    os.environ[PRECISION] = str(dtype).removeprefix("torch.")
    try:
        with only_cpu(), chunk_sizes("cuda", logits):
            yield
    finally:
        del os.environ[PRECISION]
        if previous is not None:
            os.environ[PRECISION] = previous


def _allocate(model: torch.nn.Module) -> None:
    """Replace tensors on the meta device by fake tensors; tied ones stay tied."""
    allocated: dict[int, tuple[Any, Any]] = {}  # with the old tensors, so that ids differ
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, old in tensors.items():
                if old is None:
                    continue
                if id(old) not in allocated:
                    new = torch.zeros(old.shape, dtype=old.dtype)
                    if isinstance(old, torch.nn.Parameter):
                        new = torch.nn.Parameter(new, requires_grad=old.requires_grad)
                    allocated[id(old)] = new, old
                tensors[name] = allocated[id(old)][0]


class _LiveBytes(TorchDispatchMode):
    """Counts the bytes of live storages; `tensors` are live from the beginning.

    The parameters `elsewhere` do not count, nor do the gradients that FSDP gives them. FSDP's
    temporary copies of these are live before as many other bytes are, so they create no peak. Rows
    of sparse adapters have `entries` entries.
    """

    def __init__(
        self,
        tensors: Iterable[torch.Tensor],
        elsewhere: Iterable[torch.nn.Parameter],
        entries: int,
    ):
        super().__init__()
        self.bytes = self.peak = 0
        self.sizes: dict[int, int] = {}
        self.elsewhere: set[int] = set()
        self.entries = entries
        self.hooks = []
        for parameter in elsewhere:
            self._leave_out(parameter)
            hook = parameter.register_post_accumulate_grad_hook(lambda p: self._leave_out(p.grad))
            self.hooks.append(hook)
        self._count(tensors)

    def __enter__(self):
        # FSDP frees and refills gathered tensors by resizing their storage, which is not an
        # operation on tensors: no dispatch mode or hook sees it. torch's own memory tracker
        # (torch.distributed._tools) replaces this method, too.
        self.resize = resize = torch.UntypedStorage.resize_

        def counted_resize(storage, size):
            resize(storage, size)
            self._update(storage)

        torch.UntypedStorage.resize_ = counted_resize
        return super().__enter__()

    def __exit__(self, *raised):
        torch.UntypedStorage.resize_ = self.resize
        for hook in self.hooks:
            hook.remove()
        return super().__exit__(*raised)

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        # Sizes that depend on values are as large as possible.
        if function is torch.ops.aten.nonzero.default:
            result = torch.arange(arguments[0].numel())[:, None]
        elif function is torch.ops.aten._unique2.default:
            every = torch.arange(arguments[0].numel())
            result = every, every.view_as(arguments[0]).clone(), every[:0]
        elif function is torch.ops.aten.repeat_interleave.Tensor:
            result = torch.arange(len(arguments[0]) * self.entries) // self.entries
        elif function is torch.ops.aten.index.Tensor:
            tensor, indices = arguments
            masks = [index is not None and index.dtype == torch.bool for index in indices]
            pairs = zip(indices, masks, strict=True)
            result = function(tensor, [torch.arange(len(i)) if mask else i for i, mask in pairs])
        else:
            result = function(*arguments, **(named or {}))
        self._count(leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
        return result

    def _count(self, tensors: Iterable[torch.Tensor]) -> None:
        for tensor in tensors:
            self._update(_storage(tensor))

    def _leave_out(self, tensor: torch.Tensor) -> None:
        storage = _storage(tensor)
        self.elsewhere.add(storage._cdata)
        self._update(storage)

    def _update(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        size = 0 if key in self.elsewhere else storage.nbytes()
        if key not in self.sizes:
            weakref.finalize(storage, self._forget, key)
        self.bytes += size - self.sizes.get(key, 0)
        self.sizes[key] = size
        self.peak = max(self.peak, self.bytes)

    def _forget(self, key: int) -> None:
        self.bytes -= self.sizes.pop(key)
        self.elsewhere.discard(key)


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage:
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return local.untyped_storage()
