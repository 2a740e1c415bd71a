"""Masked language modelling: an encoder restores tokens drawn by `masked_likelihood.Masker`."""

from typing import TYPE_CHECKING, Any

from lexigraft.source.model import MASKED
from lexigraft.training.objective import Objective, PhaseContext

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from lexigraft.training.data import SequenceDataset


class MaskedModeling(Objective):
    """The negative log-likelihood of the masked tokens, in nats; no others have logits."""

    model_kind = MASKED
    options = ("masking",)

    @classmethod
    def prepare_data(
        cls, sequences: "SequenceDataset", context: PhaseContext, seed: list[Any]
    ) -> "SequenceDataset":
        """The sequences, masked anew at each visit; a UserError without a mask token."""
        from lexigraft.inference.masked_likelihood import Masker
        from lexigraft.training.data import MaskedDataset

        return MaskedDataset(sequences, Masker(context.tokenizer, context.phase.masking), seed)

    def targets(self, batch: "dict[str, torch.Tensor]") -> "list[torch.Tensor]":
        """The masked tokens."""
        return [batch["labels"]]

    def losses(
        self,
        model: "PreTrainedModel",
        inputs: "dict[str, torch.Tensor]",
        weights: "torch.Tensor | None" = None,
    ) -> "torch.Tensor":
        """Nats of all masked tokens together, [1]."""
        from lexigraft.inference.chunked_logits import chunked_logits, sum_nll

        labels = inputs.pop("labels")
        logits = chunked_logits(model, inputs)
        return sum_nll(logits, labels, weight=None if weights is None else weights[0])
