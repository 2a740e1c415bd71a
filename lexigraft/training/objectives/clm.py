"""Causal language modelling: each position predicts the next token."""

from typing import TYPE_CHECKING

from lexigraft.training.objective import Objective

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


class CausalModeling(Objective):
    """The negative log-likelihood of the next token, in nats."""

    predicts = "the next token"

    def losses(
        self,
        model: "PreTrainedModel",
        inputs: "dict[str, torch.Tensor]",
        weights: "torch.Tensor | None" = None,
    ) -> "torch.Tensor":
        """Nats of all next tokens, summed, [1]."""
        from lexigraft.inference.chunked_logits import chunked_logits, sum_nll

        [targets] = self.targets(inputs)
        inputs.pop("labels")
        logits = chunked_logits(model, {**inputs, "use_cache": False})
        return sum_nll(logits, targets, weight=None if weights is None else weights[0])
