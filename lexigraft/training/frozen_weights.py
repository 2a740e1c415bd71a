"""Stores weights that a phase does not train in bfloat16, if the model computes in bfloat16.

Under autocast, a linear layer rounds its weights to bfloat16, whatever their dtype. Rounded once,
they take half the memory and need no cast in each pass; losses and gradients are the same, bit for
bit. Autocast does not round embeddings and norms, so these stay in float32.
"""

from collections.abc import Collection, Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from transformers import PreTrainedModel

from lexigraft.hardware import precision
from lexigraft.source.matrices import stored_parameters
from lexigraft.source.weights import read_tensor
from lexigraft.training.settings import Phase
from lexigraft.training.store import linear_weights
from lexigraft.training.trainable import own_parameters, prepare_phase

if TYPE_CHECKING:
    from peft import PeftModel


class FrozenWeights:
    """The weights of a model's linear layers that are unchanged from its source.

    Matrices with a row for each token are excluded, since new rows are grafted into them. So are
    weights without a tensor of their own in the files of the `source`, from which rounded weights
    are read again. A simulation has no source.
    """

    def __init__(self, model: PreTrainedModel, source: Path | None):
        self._stored = None if source is None else stored_parameters(source, model)
        self._own = linear_weights(model, self._stored)

    def prepare_phase(
        self,
        model: PreTrainedModel,
        phase: Phase,
        trained: Collection[str] = (),
        new_ids: Sequence[int] = (),
    ) -> "tuple[list[str], PeftModel | None]":
        """Round weights that no phase up to this one trains, and call `trainable.prepare_phase`.

        `trained` are names of parameters that earlier phases trained. DoRA computes norms of
        weights in float32, so with DoRA none is rounded.
        """
        if "lora" in phase.trainable and phase.lora.dora:
            self.restore()
            return prepare_phase(model, phase, new_ids)
        self.hold({*trained, *own_parameters(model, phase)})
        with self.shown_as_float32():
            return prepare_phase(model, phase, new_ids)

    def hold(self, wanted: Container[str]) -> None:
        """Restore the `wanted` weights to the source's float32; round all others to bfloat16.

        `wanted` are names of parameters without adapters: those that will be trained or merged, and
        those that have been, which are never changed here.
        """
        if precision() != torch.bfloat16:
            return
        for name, parameter in self._own.items():
            if name not in wanted:
                parameter.data = parameter.data.to(torch.bfloat16)
            elif parameter.dtype == torch.bfloat16:
                found = read_tensor(*self._stored[name][:2]) if self._stored else parameter.data
                parameter.data = found.to(parameter.device).float()

    def restore(self) -> None:
        """Restore all weights to the source's float32 values."""
        self.hold(self._own)

    @contextmanager
    def shown_as_float32(self) -> Iterator[None]:
        """Make the weights appear as float32, without their values and without memory.

        PEFT creates and initializes adapters in the dtype of their layer.
        """
        held = {name: parameter.data for name, parameter in self._own.items()}
        for parameter in self._own.values():
            parameter.data = parameter.data.new_empty(1, dtype=torch.float32).expand_as(parameter)
        try:
            yield
        finally:
            for name, parameter in self._own.items():
                parameter.data = held[name]
