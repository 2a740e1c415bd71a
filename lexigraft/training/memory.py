"""Predicts the memory that a training will take, by running it on tensors without values.

The training code itself prepares the phases and computes a step of each, at full size, on torch's
fake tensors, which have a shape and a dtype but no memory. The bytes of live tensors are counted.

Several GPUs are simulated too: one of their processes runs, and its communication is discarded.
Where a size depends on values, it is the largest possible one: all tokens of a pass are different
and are predicted, and every row of a sparse adapter has all of its entries.
"""

import copy
from collections.abc import Iterable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import PretrainedConfig, PreTrainedModel

from lexigraft.hardware import precision
from lexigraft.initialization.recipe import Recipe
from lexigraft.source.model import auto_class
from lexigraft.source.token_tables import (
    empty_tables,
    resize_vocabulary,
    set_tables,
    token_tables,
)
from lexigraft.training.adapted_layers import attach_adapters, with_auxiliary_loss
from lexigraft.training.anchored_rows import AnchoredRows, new_rows_of
from lexigraft.training.distributed import Computation, modules_of, shard
from lexigraft.training.fake_gpu import AliveBytes, as_on_a_gpu, as_one_of, give_memory
from lexigraft.training.frozen_weights import FrozenWeights
from lexigraft.training.objective import Objective, PhaseContext, Progress
from lexigraft.training.passes import pass_tokens, split_step
from lexigraft.training.phase import add_modules, recompute_layers
from lexigraft.training.registry import objective
from lexigraft.training.settings import AMOUNTS, AdapterSettings, Phase, Strategy
from lexigraft.training.trainable import decoder_layers

_NO_MEMORY = ("data", "share", *AMOUNTS, "learning_rate")  # keys that do not affect memory
# Memory of the machine for everything but weights.
_REST = 4 * 2**30


def simulated_peak(
    config: PretrainedConfig,
    strategy: Strategy,
    rows: int,
    *,
    teacher: PretrainedConfig | None = None,
    **options: Any,
) -> int:
    """The peak memory of a training on a GPU, in bytes, over all phases.

    Arguments are those of `simulated_phases`, `options` those of `SimulatedPhase.peak`.
    """
    phases = simulated_phases(config, strategy, rows, teacher=teacher)
    return max(phase.peak(**options) for phase in set(phases))


def simulated_phases(
    config: PretrainedConfig,
    strategy: Strategy,
    rows: int,
    *,
    teacher: PretrainedConfig | None = None,
    dtype: torch.dtype = torch.bfloat16,
) -> list["SimulatedPhase"]:
    """The phases of a training, without weights; consecutive phases of equal memory are one object.

    The training computes in the precision `dtype`, on a model of this configuration whose
    vocabulary has been changed to one of `rows` rows. `teacher` is the configuration of the
    teacher, if the strategy has one.
    """
    trained: set[str] = set()
    found: list[SimulatedPhase] = []
    before = None
    with as_on_a_gpu(dtype):
        for phase in strategy.phases:
            settings = {name: value for name, value in phase if name not in _NO_MEMORY}
            if settings != before:  # equal for ALMA, whose phases differ only in their text
                model, loss, names = _prepared(config, strategy, phase, rows, trained, teacher)
                if phase.adapter is None:
                    trained |= names
                one = SimulatedPhase(model, loss, strategy, phase, dtype)
            before = settings
            found.append(one)
    return found


class SimulatedPhase:
    """A model prepared for a phase, and the objective, on tensors without values."""

    def __init__(
        self,
        model: PreTrainedModel,
        loss: Objective,
        strategy: Strategy,
        phase: Phase,
        dtype: torch.dtype,
    ) -> None:
        self.model, self.loss, self.strategy, self.phase = model, loss, strategy, phase
        self.dtype = dtype
        inside = set(model.modules())
        self.beside = [one for one in modules_of(loss) if one not in inside]  # such as a teacher
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        with self.mode:
            for one in (model, *self.beside):
                give_memory(one)

    def peak(
        self,
        tokens: int | None = None,
        *,
        gpus: int = 1,
        offload: bool = False,
        recompute: float = 1.0,
        logits: int | None = None,
        between: bool = False,
    ) -> int:
        """The peak memory of a step on a GPU, in bytes.

        CUDA's own memory and fragmentation are not included.

        Parameters
        ----------
        tokens
            The maximum tokens of a pass, by default as on a GPU; a single sequence may have more.
        gpus
            Number of GPUs that share the model (`LEXIGRAFT_SHARDED`). One of them is simulated: its
            shard, and the layers that it gathers.
        offload
            Whether trained parameters are in the memory of the machine, see `distributed.shard`.
        recompute
            The share of the layers whose activations are recomputed.
        logits
            The maximum elements in a chunk's logits, by default that of a GPU with free memory.
        between
            Whether there are gradients of an earlier pass even if a step has only one pass.
        """
        strategy, phase = self.strategy, self.phase
        length = phase.length
        if strategy.gradient_checkpointing:
            recompute_layers(self.model, recompute)
        lengths = phase.batch_sequences * [length]
        passes = split_step(lengths, tokens or pass_tokens("cuda"), gpus)[0]
        in_parts = offload or gpus > 1
        with as_on_a_gpu(self.dtype, logits), as_one_of(gpus) if in_parts else nullcontext():
            computation, loss = Computation(self.model), self.loss
            if in_parts:
                place = torch.device("cpu")
                computation, loss = shard(computation, loss, place, offload=offload)
            shape = (len(passes[0]), length)
            return self._peak(computation, loss, shape, between or len(passes) > 1, offload)

    @property
    def layers(self) -> int:
        """The number of decoder layers of the model."""
        return len(decoder_layers(self.model))

    @property
    def trained(self) -> int:
        """The number of trained parameters."""
        return sum(p.numel() for p in self.model.parameters() if p.requires_grad)

    def machine_memory(self) -> int:
        """The approximate bytes of machine memory that the phase takes with `offload`.

        Weights and gradients are in pinned memory, which CUDA rounds up to the next power of two.
        """
        trained = [p.nbytes for p in self.model.parameters() if p.requires_grad]
        frozen = sum(p.nbytes for p in self.model.parameters() if not p.requires_grad)
        pinned = sum(1 << (size - 1).bit_length() for size in trained)
        return 2 * pinned + 2 * sum(trained) + frozen + _REST

    def _peak(
        self,
        computation: Computation,
        loss: Objective,
        shape: tuple[int, int],
        earlier: bool,
        offload: bool,
    ) -> int:
        entries = self.phase.adapter.entries if self.phase.adapter else 0
        own = [parameter for parameter in computation.parameters() if parameter.requires_grad]
        modules = (computation, *self.beside)
        there = [t for one in modules for t in (*one.parameters(), *one.buffers())]
        with self.mode, AliveBytes(there, own if offload else (), entries) as alive:
            moments = [] if offload else self._moments(computation, own)
            if earlier and not offload:
                for parameter in own:
                    parameter.grad = torch.zeros_like(parameter)
            batch = loss.largest_batch(*shape)
            weights = torch.ones(loss.count_targets(batch).shape)
            losses = computation(loss.losses, batch, weights)
            loss.total(losses).backward()
            del batch, losses
            if not offload:
                torch.nn.utils.clip_grad_norm_(own, 1.0)
            del moments
            computation.zero_grad()
        return alive.peak

    def _moments(
        self, computation: Computation, own: Iterable[torch.nn.Parameter]
    ) -> list[torch.Tensor]:
        """AdamW's two moments, allocated in the first step. Fused steps create no other tensor."""
        eight = self.strategy.optimizer == "adamw-8bit"
        # Moments of embeddings never have 8 bits.
        looked_up = {
            id(module.weight)
            for module in computation.modules()
            if isinstance(module, torch.nn.Embedding)
        }
        return [
            torch.zeros_like(p, dtype=torch.uint8 if eight and id(p) not in looked_up else None)
            for p in own
            for _ in range(2)
        ]


def _prepared(
    config: PretrainedConfig,
    strategy: Strategy,
    phase: Phase,
    rows: int,
    trained: set[str],
    teacher: PretrainedConfig | None,
) -> tuple[PreTrainedModel, Objective, set[str]]:
    """A model prepared for a phase, without weights; the objective; names of what is trained."""
    new_ids = range(config.get_text_config().vocab_size, rows)
    with torch.device("meta"):
        model = _without_weights(config, torch.float32)
        if phase.adapter is None:
            set_tables(model, empty_tables(model, token_tables(model), rows))
            resize_vocabulary(model, rows)
        else:
            _attach_adapters(model, rows, phase.adapter)
        names, _ = FrozenWeights(model, None).prepare_phase(model, phase, trained, new_ids)
        kind, teaching = objective(phase.objective), None
        if kind.needs_teacher and teacher is not None:
            teaching = _without_weights(teacher, precision()).requires_grad_(False)
        # Before training, objectives read nothing else of a tokenizer, and no inputs.
        tokenizer: Any = _vocabulary_of(rows)
        context = PhaseContext(model, tokenizer, strategy, phase, Progress(), {}, [], teaching)
        loss = with_auxiliary_loss(kind.for_phase(context), model, phase)
        if phase.anchor and new_ids:
            loss = AnchoredRows(loss, new_ids, new_rows_of(model, new_ids), phase.anchor)
    add_modules(model, loss)
    return model.train(), loss, set(names)


def _without_weights(config: PretrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    # A copy, since resizing changes it.
    return auto_class(config).from_config(copy.deepcopy(config), dtype=dtype)


def _attach_adapters(model: PreTrainedModel, rows: int, settings: AdapterSettings) -> None:
    """Attach adapters from a recipe with the longest possible rows; for dense ones, copies.

    The auxiliary loss is then that of all rows.
    """
    source = model.config.get_text_config().vocab_size
    entries = min(settings.entries, source) if settings.form == "sparse" else 1
    columns = np.arange(rows)[:, None] % (source - entries + 1) + np.arange(entries)
    starts = np.arange(rows + 1) * entries
    left = csr_array((np.ones(rows * entries), columns.ravel(), starts), shape=(rows, source))
    tokenizer: Any = _vocabulary_of(rows)
    attach_adapters(model, tokenizer, Recipe(left, None, np.arange(0)), settings)


def _vocabulary_of(rows: int) -> SimpleNamespace:
    return SimpleNamespace(get_vocab=lambda: {"last": rows - 1})
