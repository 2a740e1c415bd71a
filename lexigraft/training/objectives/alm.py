"""Approximate likelihood matching: the model learns a teacher's likelihoods of pieces of text.

Minixhofer, Vulić and Ponti (2025), "Universal Cross-Tokenizer Distillation via Approximate
Likelihood Matching". Teacher and model may have any two vocabularies.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from lexigraft.settings import Settings, optional
from lexigraft.training.chunk_distillation import (
    ChunkDistillation,
    chunks_of,
    is_last,
    pop_teacher_inputs,
)
from lexigraft.training.objective import TokenCost
from lexigraft.training.settings import Phase, left_out

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

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
    teacher_length: int = optional(
        "maximum number of tokens of a sequence that the teacher reads; the rest has no part in "
        "the matching loss. By default four times the phase's `length`, or the teacher's maximum "
        "if that is less",
        ge=8,
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
    def teacher_name(cls, phase: Mapping[str, Any], source: str | None) -> str | None:
        """The teacher that the phase names, or the cell's own source."""
        return (phase.get("alm") or {}).get("teacher") or source

    @classmethod
    def cost(cls, phase: Mapping[str, Any]) -> TokenCost:
        """The teacher reads its own tokens."""
        return TokenCost(teacher_tokenizes=True)

    def targets(self, batch: "dict[str, torch.Tensor]") -> "list[torch.Tensor]":
        """The next tokens; and each chunk, at the position of its last token."""
        from lexigraft.inference.chunked_logits import IGNORED

        [tokens] = super().targets(batch)
        chunks = chunks_of(batch)
        return [tokens, chunks.where(is_last(chunks), IGNORED)]

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
        from torch.nn.functional import cross_entropy, pad

        from lexigraft.inference.chunked_logits import (
            IGNORED,
            chunked_logits,
            nll_per_token,
            targets_ahead,
        )

        next_tokens, _ = self.targets(inputs)
        chunks, teacher_inputs = chunks_of(inputs), pop_teacher_inputs(inputs)
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
            teacher_scores = chunk_scores(teacher_nats, teacher_chunks, chunks.shape[1])
        model_logits = chunked_logits(model, {**inputs, "use_cache": False})
        nats = nll_per_token(model_logits, next_tokens)
        scores = chunk_scores(nats, chunks, chunks.shape[1])
        with torch.enable_grad():
            chunk_losses = matching(
                teacher_scores, scores.requires_grad_(), self.settings.temperature
            )
            loss = chunk_losses.where(is_last(chunks), 0.0).sum()
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
        return torch.stack(
            [nats.sum(), loss.detach() + (weighted_sum - weighted_sum.detach()) / chunk_weight]
        )

    def total(self, losses: "torch.Tensor") -> "torch.Tensor":
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


def chunk_scores(nats: "torch.Tensor", chunks: "torch.Tensor", size: int) -> "torch.Tensor":
    """Log-probabilities of chunks, at the indices of their numbers, [batch, size].

    `nats` [batch, m] are those of each position's next token, `chunks` the tokens' chunk numbers.
    """
    import torch

    from lexigraft.inference.chunked_logits import IGNORED

    scores = torch.nn.functional.pad(-nats[:, :-1], (1, 0))
    columns = chunks.where(chunks.ne(IGNORED), size)  # the last column is for no chunk
    return scores.new_zeros((len(scores), size + 1)).scatter_add_(1, columns, scores)[:, :size]
