"""Causal language modelling: each position predicts the next token."""

from typing import TYPE_CHECKING

import torch

from lexigraft.training.chunked import read_out, summed_nats
from lexigraft.training.data import IGNORED, targets_ahead
from lexigraft.training.objectives.interface import Objective

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Clm(Objective):
    """The negative log-likelihood of the next token, in nats."""

    def count(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """How many next tokens count."""
        return _targets(batch).ne(IGNORED).sum()[None]

    def losses(self, model: "PreTrainedModel", inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Nats of all next tokens together, [1]."""
        targets = _targets(inputs)
        inputs.pop("labels")
        return summed_nats(read_out(model, {**inputs, "use_cache": False}), targets)


def _targets(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return targets_ahead(batch["labels"], 1, batch.get("position_ids"))
