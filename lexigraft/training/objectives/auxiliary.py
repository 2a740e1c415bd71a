"""VocADT's auxiliary loss: what keeps the adapters' rows of shared tokens where they started."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from lexigraft.training.adapted_layers import adapters
from lexigraft.training.adapter import Adapter
from lexigraft.training.objectives.interface import Objective
from lexigraft.training.settings import Phase

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def with_auxiliary(objective: Objective, model: "PreTrainedModel", phase: Phase) -> Objective:
    """The objective of a phase as it is, or with the auxiliary loss where it trains adapters."""
    if phase.adapter is None or phase.adapter.alpha == 0:
        return objective
    return WithAuxiliary(objective, adapters(model), phase.adapter.alpha)


class WithAuxiliary(Objective):
    """Another objective, and alpha times Eq. 4 of each adapter (paper 001, section 3.3).

    The paper writes Eq. 4 for one adapter; those of input and head are added up. In the log
    `aux_loss` has the factor alpha, so that the parts add up to the loss.
    """

    def __init__(self, objective: Objective, adapters: Sequence[Adapter], alpha: float):
        self.objective, self.adapters, self.alpha = objective, list(adapters), alpha
        self.parts = (*(objective.parts or ("lm_loss",)), "aux_loss")

    def modules(self) -> dict[str, torch.nn.Module]:
        """Those of the other objective."""
        return self.objective.modules()

    def count(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Its targets, and one more: each pass adds the auxiliary loss once."""
        counts = self.objective.count(batch)
        return torch.cat([counts, counts.new_ones(1)])

    def losses(self, model: "PreTrainedModel", inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Its parts, and the auxiliary loss."""
        losses = self.objective.losses(model, inputs)
        drift = torch.stack([adapter.drift() for adapter in self.adapters]).sum()
        return torch.cat([losses, (self.alpha * drift)[None]])

    def total(self, losses: torch.Tensor) -> torch.Tensor:
        """The other objective's loss, and the auxiliary one."""
        return self.objective.total(losses[:-1]) + losses[-1]
