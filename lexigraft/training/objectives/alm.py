"""Approximate likelihood matching: the model learns a teacher's likelihoods of pieces of text.

Minixhofer, Vulić and Ponti (2025), "Universal Cross-Tokenizer Distillation via Approximate
Likelihood Matching". Teacher and model may have any two vocabularies.
"""

import math
from typing import TYPE_CHECKING

from pydantic import Field

from lexigraft.inference.text_encoding import IGNORED
from lexigraft.settings import Settings, optional
from lexigraft.training.chunk_distillation import (
    ChunkDistillation,
    chunks_of,
    pop_teacher_inputs,
)
from lexigraft.training.objective import TokenCost
from lexigraft.training.settings import Phase, left_out

if TYPE_CHECKING:
    import torch

EPSILON = 1e-6  # from the published code: is subtracted from every log-probability


class AlmSettings(Settings):
    """Approximate likelihood matching: the teacher, and the loss."""

    teacher: str = optional(
        "a name of sources.yaml, with any vocabulary. By default the cell's own source"
    )
    temperature: float = Field(
        100.0, gt=0, description="divisor of the log-probabilities of chunks"
    )
    weight: float = Field(1.0, gt=0, description="weight of the matching loss")
    next_weight: float = Field(
        0.0, ge=0, description="weight of the next-token loss that is added to it"
    )


class AlmPhase(Phase):
    """A phase with a teacher of any vocabulary."""

    alm: AlmSettings = left_out(AlmSettings, "the teacher and the loss")


class LikelihoodMatching(ChunkDistillation):
    """A binary cross-entropy of chunk probabilities, plus the next-token loss.

    `weight x matching + next_weight x nats`, see `matching`. The probability of a chunk under a
    model is the product of those of its tokens.
    """

    predicts = "the likelihood that a teacher of any vocabulary assigns to pieces of text"
    phase = AlmPhase
    teacher_key = "alm.teacher"
    loss_names = ("next_loss", "alm_loss")

    @classmethod
    def teacher_name(cls, phase, source):
        """The teacher that the phase names, or the cell's own source."""
        return phase.alm.teacher or source

    @classmethod
    def cost(cls, phase):
        """The teacher reads its own tokens."""
        return TokenCost(teacher_tokenizes=True)

    def targets(self, batch):
        """The next tokens; and each chunk, at the position of its last token."""

        chunks, is_last = chunks_of(batch)
        return [*super().targets(batch), chunks.where(is_last, IGNORED)]

    def losses(self, model, inputs, weights=None):
        """Nats of the next tokens, and the matching loss of the chunks, [2].

        The loss of a chunk depends on all of its tokens, so its derivative with respect to their
        log-probability is computed first. The gradient of both parts is then that of one weighted
        sum of nats, computed in chunks of positions. Only the sum of the parts times `weights`, by
        default their `total`, has this gradient; that of a single part is not correct.
        """
        import torch
        from torch.nn.functional import cross_entropy, pad

        from lexigraft.inference.chunked_logits import (
            chunked_logits,
            nll_per_token,
            targets_ahead,
        )

        def scores_of(nats: torch.Tensor, chunks: torch.Tensor, size: int) -> torch.Tensor:
            """Log-probabilities of chunks, at the indices of their numbers, [batch, size]."""
            token_scores = pad(-nats[:, :-1], (1, 0))  # nats are those of each next token
            columns = chunks.where(chunks.ne(IGNORED), size)  # the last one is for no chunk
            scores = token_scores.new_zeros((len(nats), size + 1))
            return scores.scatter_add_(1, columns, token_scores)[:, :size]

        next_tokens, _ = self.targets(inputs)
        (chunks, is_last), teacher_inputs = chunks_of(inputs), pop_teacher_inputs(inputs)
        size = chunks.shape[1]
        teacher_scores = torch.zeros(chunks.shape, device=self.teacher.device)
        if teacher_inputs:  # none in a process with no sequence left
            teacher_chunks = teacher_inputs.pop("chunks")
            labels = teacher_inputs["input_ids"].where(teacher_chunks.ne(IGNORED), IGNORED)
            teacher_targets = targets_ahead(labels, 1, teacher_inputs.get("position_ids"))
            with torch.no_grad():
                teacher_logits = chunked_logits(
                    self.teacher, {**teacher_inputs, "use_cache": False}
                )
            teacher_nats = nll_per_token(teacher_logits, teacher_targets)
            teacher_scores = scores_of(teacher_nats, teacher_chunks, size)
        model_logits = chunked_logits(model, {**inputs, "use_cache": False})
        nats = nll_per_token(model_logits, next_tokens)
        scores = scores_of(nats, chunks, size).requires_grad_()
        with torch.enable_grad():
            chunk_losses = matching(teacher_scores, scores, self.settings.temperature)
            loss = chunk_losses.where(is_last, 0.0).sum()
            [slope] = torch.autograd.grad(loss, scores)
        next_weight, chunk_weight = (
            (self.settings.next_weight, self.settings.weight) if weights is None else weights
        )
        # Factors of each token's nats, [batch, tokens], then moved to where it is predicted.
        factors = -slope.gather(1, chunks.clamp(min=0)).masked_fill(chunks.eq(IGNORED), 0)
        factors = chunk_weight * pad(factors[:, 1:], (0, 1))
        factors = (factors + next_weight * next_tokens.ne(IGNORED)).flatten()
        positions = factors.nonzero()[:, 0]
        targets, factors = next_tokens.flatten()[positions], factors[positions]

        def weighted(states: torch.Tensor, chunk: slice) -> torch.Tensor:
            logits = model_logits.logits(states).float()
            return (cross_entropy(logits, targets[chunk], reduction="none") * factors[chunk]).sum()

        weighted_sum = model_logits.sum(
            positions, weighted, None if weights is None else torch.ones_like(loss)
        )
        with_gradient = loss.detach() + (weighted_sum - weighted_sum.detach()) / chunk_weight
        return torch.stack([nats.sum(), with_gradient])

    def total(self, losses):
        """The weighted sum of both."""
        return self.settings.next_weight * losses[0] + self.settings.weight * losses[1]


def matching(teacher: "torch.Tensor", model: "torch.Tensor", temperature: float) -> "torch.Tensor":
    """The binary cross-entropy of log-probabilities of chunks, of the same shape, in nats.

    With `p = exp(teacher / temperature - EPSILON)` and `q` from `model` likewise, it is
    `-p log(q) - (1 - p) log(1 - q)`: KL(p || q) of "this text or any other", plus the entropy of
    `p`, which training does not change (tokenkit, `binary_ce`).
    """
    import torch

    log_p, log_q = (scores.float() / temperature - EPSILON for scores in (teacher, model))
    # log(1 - q), without cancellation.
    small = log_q < -math.log(2)
    log_not_q = torch.where(small, (-log_q.exp()).log1p(), (-torch.expm1(log_q)).log())
    return -(log_p.exp() * log_q - torch.expm1(log_p) * log_not_q)
