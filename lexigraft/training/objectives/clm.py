"""Causal language modelling: each position predicts the next token."""

from lexigraft.training.objective import Objective


class CausalModeling(Objective):
    """The negative log-likelihood of the next token, in nats."""

    predicts = "the next token"

    def losses(self, model, inputs, weights=None):
        """Nats of all next tokens, summed, [1]."""
        from lexigraft.inference.chunked_logits import chunked_logits, sum_nll

        [targets] = self.targets(inputs)
        inputs.pop("labels")
        logits = chunked_logits(model, {**inputs, "use_cache": False})
        return sum_nll(logits, targets, weight=None if weights is None else weights[0])
