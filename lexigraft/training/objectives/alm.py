"""Approximate likelihood matching: the model learns a teacher's likelihoods of pieces of text.

Minixhofer, Vulić and Ponti (2025), "Universal Cross-Tokenizer Distillation via Approximate
Likelihood Matching". Teacher and model may have any two vocabularies.
"""

import math
from typing import TYPE_CHECKING

from lexigraft.training.taught_by_chunks import TaughtByChunks, own_chunks, take_teacher

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

EPSILON = 1e-6  # from the published code: is subtracted from every log-probability


class LikelihoodMatching(TaughtByChunks):
    """A binary cross-entropy of chunk probabilities, plus the next-token loss.

    `weight x matching + next_weight x nats`, see `matching`. A chunk is a piece of text of whole
    tokens in both tokenizers (`token_alignment`); its probability under a model is the product of
    those of its tokens. In the training log, the parts are without their weights.
    """

    options = ("alm",)
    teacher_key = "alm.teacher"
    loss_names = ("next_loss", "alm_loss")

    def targets(self, batch: "dict[str, torch.Tensor]") -> "list[torch.Tensor]":
        """The next tokens; and each chunk, at the position of its last token."""
        import torch

        from lexigraft.inference.chunked_logits import IGNORED

        [tokens] = super().targets(batch)
        chunks = own_chunks(batch)
        places = torch.arange(chunks.shape[1], device=chunks.device)
        return [tokens, chunks.where(chunks == places, IGNORED)]

    def losses(
        self,
        model: "PreTrainedModel",
        inputs: "dict[str, torch.Tensor]",
        weights: "torch.Tensor | None" = None,
    ) -> "torch.Tensor":
        """Nats of the next tokens, and the matching loss of the chunks, [2].

        The loss of a chunk depends on all of its tokens, so its derivative with respect to their
        log-probability is computed first. The gradient of both parts is then that of one weighted
        sum of nats, computed in chunks of positions. Only the sum of the parts times `weights`, by
        default their `total`, has this gradient; that of a single part is not correct.
        """
        import torch

        from lexigraft.inference.chunked_logits import IGNORED, chunked_logits, nll_per_token

        next_tokens, ends = self.targets(inputs)
        chunks, theirs = own_chunks(inputs), take_teacher(inputs)
        with torch.no_grad():
            taught = self._taught(theirs, chunks.shape)
        learned = chunked_logits(model, {**inputs, "use_cache": False})
        nats = nll_per_token(learned, next_tokens)
        ours = _of_chunks(nats, chunks, chunks.shape[1])
        with torch.enable_grad():
            each = matching(taught, ours.requires_grad_(), self.settings.temperature)
            loss = each.where(ends.ne(IGNORED), 0.0).sum()
            [slope] = torch.autograd.grad(loss, ours)
        own = (self.settings.next_weight, self.settings.weight)
        next_weight, own_weight = own if weights is None else weights
        # Factors of each token's nats, [batch, tokens], then moved to where it is predicted.
        factors = -slope.gather(1, chunks.clamp(min=0)).masked_fill(chunks.eq(IGNORED), 0)
        factors = own_weight * torch.nn.functional.pad(factors[:, 1:], (0, 1))
        factors = (factors + next_weight * next_tokens.ne(IGNORED)).flatten()
        places = factors.nonzero()[:, 0]
        wanted, factors = next_tokens.flatten()[places], factors[places]

        def weighted(states: torch.Tensor, chunk: slice) -> torch.Tensor:
            logits = learned.logits(states).float()
            each = torch.nn.functional.cross_entropy(logits, wanted[chunk], reduction="none")
            return (each * factors[chunk]).sum()

        both = learned.sum(places, weighted, None if weights is None else torch.ones_like(loss))
        return torch.stack([nats.sum(), loss.detach() + (both - both.detach()) / own_weight])

    def total(self, losses: "torch.Tensor") -> "torch.Tensor":
        """The weighted sum of both."""
        return self.settings.next_weight * losses[0] + self.settings.weight * losses[1]

    def _taught(self, inputs: "dict[str, torch.Tensor]", shape: "torch.Size") -> "torch.Tensor":
        """The teacher's log-probabilities of the chunks, at the indices of their numbers."""
        import torch

        from lexigraft.inference.chunked_logits import (
            IGNORED,
            chunked_logits,
            nll_per_token,
            targets_ahead,
        )

        if not inputs:
            return torch.zeros(shape, device=self.teacher.device)
        chunks = inputs.pop("chunks")
        labels = inputs["input_ids"].where(chunks.ne(IGNORED), IGNORED)
        wanted = targets_ahead(labels, 1, inputs.get("position_ids"))
        logits = chunked_logits(self.teacher, {**inputs, "use_cache": False})
        return _of_chunks(nll_per_token(logits, wanted), chunks, shape[1])


def matching(taught: "torch.Tensor", ours: "torch.Tensor", temperature: float) -> "torch.Tensor":
    """The binary cross-entropy of log-probabilities of chunks, of the same shape, in nats.

    With `p = exp(taught / temperature - EPSILON)` and `q` from `ours` likewise, it is
    `-p log(q) - (1 - p) log(1 - q)`: KL(p || q) of "this text or any other", plus the entropy of
    `p`, which training does not change. Both are computed as in the published code (tokenkit,
    `binary_ce`).
    """
    import torch

    log_p, log_q = (some.float() / temperature - EPSILON for some in (taught, ours))
    # log(1 - q), without cancellation.
    small = log_q < -math.log(2)
    rest = torch.where(small, (-log_q.exp()).log1p(), (-torch.expm1(log_q)).log())
    return -(log_p.exp() * log_q - torch.expm1(log_p) * rest)


def _of_chunks(nats: "torch.Tensor", chunks: "torch.Tensor", size: int) -> "torch.Tensor":
    """Log-probabilities of chunks, at the indices of their numbers, [batch, size].

    `nats` [batch, m] are those of each position's next token, `chunks` the tokens' chunk numbers.
    """
    import torch

    from lexigraft.inference.chunked_logits import IGNORED

    own = torch.nn.functional.pad(-nats[:, :-1], (1, 0))
    places = chunks.where(chunks.ne(IGNORED), size)  # the last column is for no chunk
    return own.new_zeros((len(own), size + 1)).scatter_add_(1, places, own)[:, :size]
