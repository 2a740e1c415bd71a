"""Causal language modelling: each position predicts the next token."""

from typing import TYPE_CHECKING

import torch

from lexigraft.inference.chunked_logits import IGNORED, chunked_logits, sum_nll, targets_ahead
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
        return sum_nll(chunked_logits(model, {**inputs, "use_cache": False}), targets)


def _targets(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return targets_ahead(batch["labels"], 1, batch.get("position_ids"))
