"""Masked language modelling: an encoder restores the tokens that `masking` drew."""

from typing import TYPE_CHECKING

import torch

from lexigraft.inference.chunked_logits import IGNORED, chunked_logits, sum_nll
from lexigraft.training.objectives.interface import Objective

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Mlm(Objective):
    """The negative log-likelihood of the masked tokens, in nats; no others have logits."""

    def count(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """How many tokens are masked."""
        return batch["labels"].ne(IGNORED).sum()[None]

    def losses(self, model: "PreTrainedModel", inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Nats of all masked tokens together, [1]."""
        labels = inputs.pop("labels")
        return sum_nll(chunked_logits(model, inputs), labels)
