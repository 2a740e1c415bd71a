"""Chooses how a training uses the memory of its GPU, by simulating it before it begins.

The choices are the tokens of a pass, the share of the layers whose activations are recomputed, and
whether trained parameters are offloaded to the memory of the machine. They change results only by
rounding. Machine settings take precedence; nothing is chosen on a CPU, or if several GPUs train a
cell.
"""

import logging
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import psutil
from transformers import PretrainedConfig

from lexigraft.hardware import device, precision
from lexigraft.inference.batch_sizes import free_memory
from lexigraft.inference.chunked_logits import LEAST_LOGITS
from lexigraft.machine import setting
from lexigraft.training.distributed import world_size
from lexigraft.training.memory import SimulatedPhase, simulated_phases
from lexigraft.training.passes import PhaseMemory, usual_memory
from lexigraft.training.settings import Strategy

logger = logging.getLogger(__name__)
# Of the free memory. The rest is for fragmentation and what libraries allocate for themselves.
SHARE = 0.92
# Passes of more tokens are hardly faster.
MOST_TOKENS = 2**14


@dataclass(frozen=True)
class MemoryPlan:
    """How each phase uses the memory, and whether trained parameters are offloaded."""

    phases: tuple[PhaseMemory, ...]
    offload: bool


def plan_memory(
    config: PretrainedConfig,
    strategy: Strategy,
    rows: int,
    *,
    teacher: PretrainedConfig | None = None,
    free: int | None = None,
) -> MemoryPlan:
    """Choose how a training on this process's device uses memory, and log the choice.

    Arguments are those of `memory.simulated_phases`, and `free`: the free bytes of the GPU before
    the model is loaded, measured by default.
    """
    if free is None and device().type == "cuda" and world_size() == 1:
        free = free_memory(device())
    offload = bool(setting("offload")) and world_size() == 1
    usual = usual_memory(device().type if free is None else "cuda")
    as_usual = MemoryPlan(len(strategy.phases) * (usual,), offload)
    if free is None or not strategy.phases:
        return as_usual
    began, usable = time.monotonic(), int(SHARE * free)
    try:
        phases = simulated_phases(config, strategy, rows, teacher=teacher, dtype=precision())
        chosen = _choose_all(phases, usable, offload)
        if None in chosen and _may_offload(phases, strategy):
            offload, chosen = True, _choose_all(phases, usable, offload=True)
    except Exception as error:  # whatever fake tensors do not support
        logger.warning("memory cannot be simulated (%s); the defaults are used", error)
        return as_usual
    if None in chosen:
        logger.warning("this training may not fit into the %s of its GPU", _gibibytes(free))
    smallest = replace(usual, tokens=setting("pass_tokens") or 1)
    plan = MemoryPlan(tuple(one or smallest for one in chosen), offload)
    seconds = time.monotonic() - began
    logger.info("%s (simulated in %.0f s)", _described(plan, phases), seconds)
    return plan


def _choose_all(
    phases: Sequence[SimulatedPhase], usable: int, offload: bool
) -> list[PhaseMemory | None]:
    found = {phase: _Choice(phase, usable, offload).make() for phase in dict.fromkeys(phases)}
    return [found[phase] for phase in phases]


class _Choice:
    """Chooses settings for a phase that fit into the `usable` bytes.

    The peak is the maximum of several quantities that grow linearly with the tokens, or with the
    layers that are not recomputed. Between two simulated values, it is below the line through them,
    so what this line allows fits.
    """

    def __init__(self, phase: SimulatedPhase, usable: int, offload: bool):
        self.phase, self.usable, self.offload = phase, usable, offload
        self._peak = cache(self._simulated)

    def make(self) -> PhaseMemory | None:
        """The chosen settings; None if nothing fits."""
        usual, strategy = usual_memory("cuda"), self.phase.strategy
        if self._peak(usual.tokens, usual.recompute) > self.usable:
            return self._smaller(usual)
        share = usual.recompute if strategy.gradient_checkpointing else 0.0
        if share > 0 and setting("recompute") is None:
            share = self._least_share(usual.tokens)
        phase = self.phase.phase
        most = min(MOST_TOKENS, phase.batch_sequences * phase.length)
        if share > 0 or setting("pass_tokens") or most <= usual.tokens:
            return PhaseMemory(usual.tokens, share)
        if self._peak(most, share) <= self.usable:
            return PhaseMemory(most, share)
        between = self._between(usual.tokens, most, share)
        return PhaseMemory(max(usual.tokens, between or 0), share)

    def _smaller(self, usual: PhaseMemory) -> PhaseMemory | None:
        """Settings that fit with the smallest chunks of logits; None if nothing fits."""
        if self._peak(usual.tokens, usual.recompute, logits=LEAST_LOGITS) <= self.usable:
            return usual
        if setting("pass_tokens"):
            return None
        length = self.phase.phase.length
        tokens = self._between(length, usual.tokens, usual.recompute, logits=LEAST_LOGITS)
        return None if tokens is None else PhaseMemory(tokens, usual.recompute)

    def _least_share(self, tokens: int) -> float:
        """The smallest share of recomputed layers that fits, in whole layers."""
        none = self._peak(tokens, 0.0)
        if none <= self.usable:
            return 0.0
        count, every = self.phase.layers, self._peak(tokens, 1.0)
        again = math.ceil(count * (none - self.usable) / (none - every))
        while again < count and self._peak(tokens, again / count) > self.usable:
            again += 1  # layers differ: some are trained, others are not
        return again / count

    def _between(self, low: int, high: int, share: float, **options: Any) -> int | None:
        """The maximum tokens that fit, from `low` to `high`; None if `low` does not fit."""
        # A step of several passes has gradients of earlier passes.
        less, more = (
            self._peak(tokens, share, between=True, **options) for tokens in (low, max(low, high))
        )
        if less > self.usable:
            return None
        if more <= self.usable:
            return max(low, high)
        return low + int((high - low) * (self.usable - less) / (more - less))

    def _simulated(self, tokens: int, share: float, **options: Any) -> int:
        return self.phase.peak(tokens, recompute=share, offload=self.offload, **options)


def _may_offload(phases: Sequence[SimulatedPhase], strategy: Strategy) -> bool:
    """Whether trained parameters may be offloaded, and the machine has enough memory."""
    if setting("offload") is not None or strategy.optimizer != "adamw":
        return False
    needed, there = max(phase.machine_memory() for phase in phases), machine_memory()
    if needed > there:
        logger.warning(
            "with %s of machine memory, trained parameters could be offloaded; this job has %s",
            _gibibytes(needed),
            _gibibytes(there),
        )
    return needed <= there


def machine_memory() -> int:
    """The bytes of machine memory that this job may still use; under Slurm, at most its request."""
    available = psutil.virtual_memory().available
    asked = int(os.environ.get("SLURM_MEM_PER_NODE", 0))  # megabytes; 0 means all memory
    return min(available, asked * 2**20) if asked else available


def _gibibytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


def _described(plan: MemoryPlan, phases: Sequence[SimulatedPhase]) -> str:
    parts = []
    for one, phase in dict.fromkeys(zip(plan.phases, phases, strict=True)):
        part = f"micro-batches of {max(one.tokens, phase.phase.length)} tokens"
        if phase.strategy.gradient_checkpointing:
            part += f", {one.recompute:.0%} of the layers recomputed"
        parts.append(part)
    text = "; then ".join(dict.fromkeys(parts))
    return f"{text}; trained parameters in the machine's memory" if plan.offload else text
