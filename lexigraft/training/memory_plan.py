"""How a training uses the memory of its GPU, chosen before it begins by simulating it.

Chosen are the tokens of a pass, the share of the layers whose activations are computed again, and
whether what is trained has to live in the memory of the machine. None of it changes a result beyond
rounding. What a machine setting says is not chosen; on a CPU, and where several GPUs train a cell,
nothing is.
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
# Of the memory that is free. Fragments have the rest, and what libraries allocate for themselves.
SHARE = 0.92
# Passes of more tokens are hardly faster.
MOST_TOKENS = 2**14


@dataclass(frozen=True)
class MemoryPlan:
    """How each phase uses the memory, and whether what is trained is in that of the machine."""

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
    """Choose how a training on this process's device uses memory, and log it in a line.

    Arguments are those of `memory.simulated_phases`, and `free`: the bytes of the GPU before the
    model is loaded, by default as many as are free.
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
    except Exception as error:  # of whatever an architecture does that fake tensors do not
        logger.warning("its memory cannot be simulated (%s); it is used as usual", error)
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
    """Chooses for a phase what fits into the `usable` bytes.

    The peak is the largest of several, each of which grows in proportion to the tokens, or to the
    layers that are not computed again. Between two simulated values it is below the line through
    them, so what this line allows fits.
    """

    def __init__(self, phase: SimulatedPhase, usable: int, offload: bool):
        self.phase, self.usable, self.offload = phase, usable, offload
        self._peak = cache(self._simulated)

    def make(self) -> PhaseMemory | None:
        """None if nothing fits."""
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
        """With chunks of logits as small as they get where memory is short."""
        if self._peak(usual.tokens, usual.recompute, logits=LEAST_LOGITS) <= self.usable:
            return usual
        if setting("pass_tokens"):
            return None
        length = self.phase.phase.length
        tokens = self._between(length, usual.tokens, usual.recompute, logits=LEAST_LOGITS)
        return None if tokens is None else PhaseMemory(tokens, usual.recompute)

    def _least_share(self, tokens: int) -> float:
        """Of whole layers."""
        none = self._peak(tokens, 0.0)
        if none <= self.usable:
            return 0.0
        count, every = self.phase.layers, self._peak(tokens, 1.0)
        again = math.ceil(count * (none - self.usable) / (none - every))
        while again < count and self._peak(tokens, again / count) > self.usable:
            again += 1  # layers differ: in some all is trained, in others nothing
        return again / count

    def _between(self, low: int, high: int, share: float, **options: Any) -> int | None:
        """The most tokens that fit of those between two numbers; None if `low` do not fit."""
        # A step of several passes has gradients of earlier ones.
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
    """Whether what is trained may live in the memory of the machine, and there is as much of it."""
    if setting("offload") is not None or strategy.optimizer != "adamw":
        return False
    needed, there = max(phase.machine_memory() for phase in phases), machine_memory()
    if needed > there:
        logger.warning(
            "with %s of the machine's memory, what is trained could be held there; this job has %s",
            _gibibytes(needed),
            _gibibytes(there),
        )
    return needed <= there


def machine_memory() -> int:
    """The bytes that this job may still take of the machine: of Slurm, what it has asked for."""
    available = psutil.virtual_memory().available
    asked = int(os.environ.get("SLURM_MEM_PER_NODE", 0))  # megabytes; 0 is all that there is
    return min(available, asked * 2**20) if asked else available


def _gibibytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


def _described(plan: MemoryPlan, phases: Sequence[SimulatedPhase]) -> str:
    parts = []
    for one, phase in dict.fromkeys(zip(plan.phases, phases, strict=True)):
        part = f"passes of {max(one.tokens, phase.phase.length)} tokens"
        if phase.strategy.gradient_checkpointing:
            part += f", {one.recompute:.0%} of the layers computed again"
        parts.append(part)
    text = "; then ".join(dict.fromkeys(parts))
    return f"{text}; what is trained is in the machine's memory" if plan.offload else text
