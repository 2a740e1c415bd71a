"""Approximate likelihood matching: the model learns a teacher's likelihoods of pieces of text.

Minixhofer, Vulić and Ponti (2025), "Universal Cross-Tokenizer Distillation via Approximate
Likelihood Matching". Teacher and model may have any two vocabularies.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field

from lexigraft.settings import Settings, optional
from lexigraft.training.chunk_distillation import (
    ChunkDistillation,
    chunks_of,
    pop_teacher_inputs,
)
from lexigraft.training.objective import PhaseContext, TokenCost
from lexigraft.training.settings import Phase, left_out

if TYPE_CHECKING:
    import numpy as np
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lexigraft.inference.chunked_logits import ChunkedLogits

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
    debias: float = optional(
        "outcome chunk debiasing: a chunk's likelihood includes the probability that a word ends "
        "after it, and a chunk is joined with the next one unless this probability exceeds the "
        "given threshold under the teacher. The published code uses 0.1. By default, no debiasing",
        ge=0,
        lt=1,
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

    `weight x matching + next_weight x nats`, see `matching`. A chunk is a piece of text of whole
    tokens in both tokenizers (`TokenAligner`); its probability under a model is the product of
    those of its tokens. In the training log, the parts are without their weights.

    With the setting `debias`, a threshold, chunks are joined (`join_chunks`) where the teacher's
    probability that a word ends does not exceed it, and the probability of each joined chunk
    includes that of a word's end after it. `word_ends` and `teacher_word_ends` are then the ids of
    the tokens before which a word ends (`word_end_ids`), int64. The mean of the loss is
    still over the number of chunks before they are joined, which is known before the passes.
    """

    predicts = "the likelihood that a teacher of any vocabulary assigns to pieces of text"
    phase = AlmPhase
    teacher_key = "alm.teacher"
    loss_names = ("next_loss", "alm_loss")

    word_ends: "np.ndarray | None" = None
    teacher_word_ends: "np.ndarray | None" = None

    @classmethod
    def teacher_name(cls, phase: Mapping[str, Any], source: str | None) -> str | None:
        """The teacher that the phase names, or the cell's own source."""
        return (phase.get("alm") or {}).get("teacher") or source

    @classmethod
    def cost(cls, phase: Mapping[str, Any]) -> TokenCost:
        """The teacher reads its own tokens."""
        return TokenCost(teacher_tokenizes=True)

    @classmethod
    def for_phase(cls, context: PhaseContext) -> Self:
        """Create the objective with the teacher of the training job."""
        objective = super().for_phase(context)
        if objective.settings.debias is not None:
            assert context.teacher is not None
            objective.word_ends = word_end_ids(context.tokenizer)
            objective.teacher_word_ends = word_end_ids(context.teacher.tokenizer())
        return objective

    def targets(self, batch: "dict[str, torch.Tensor]") -> "list[torch.Tensor]":
        """The next tokens; and each chunk, at the position of its last token."""
        from lexigraft.inference.chunked_logits import IGNORED

        [tokens] = super().targets(batch)
        chunks = chunks_of(batch)
        return [tokens, chunks.where(_is_last(chunks), IGNORED)]

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

        from lexigraft.inference.chunked_logits import IGNORED, chunked_logits

        next_tokens, _ = self.targets(inputs)
        chunks, teacher_inputs = chunks_of(inputs), pop_teacher_inputs(inputs)
        with torch.no_grad():
            teacher_scores, chunks = self._taught(teacher_inputs, chunks)
        logits_of_model = chunked_logits(model, {**inputs, "use_cache": False})
        ends = _is_last(chunks)
        nats, end_nats = _nats(logits_of_model, next_tokens, ends, self.word_ends)
        scores = _of_chunks(nats, chunks, chunks.shape[1]) - end_nats
        with torch.enable_grad():
            chunk_losses = matching(
                teacher_scores, scores.requires_grad_(), self.settings.temperature
            )
            loss = chunk_losses.where(ends, 0.0).sum()
            [slope] = torch.autograd.grad(loss, scores)
        factors_of_parts = (self.settings.next_weight, self.settings.weight)
        next_weight, chunk_weight = factors_of_parts if weights is None else weights
        # Factors of each token's nats, [batch, tokens], then moved to where it is predicted.
        factors = -slope.gather(1, chunks.clamp(min=0)).masked_fill(chunks.eq(IGNORED), 0)
        factors = chunk_weight * torch.nn.functional.pad(factors[:, 1:], (0, 1))
        factors = (factors + next_weight * next_tokens.ne(IGNORED)).flatten()
        # Those of a word's end, which is predicted at the last token of a chunk.
        end_factors = (-chunk_weight * slope.where(ends, 0.0)).flatten()
        if self.word_ends is None:
            end_factors = torch.zeros_like(end_factors)
        positions = (factors.ne(0) | end_factors.ne(0)).nonzero()[:, 0]
        targets, factors = next_tokens.flatten()[positions], factors[positions]
        end_factors = end_factors[positions]

        def weighted(states: torch.Tensor, chunk: slice) -> torch.Tensor:
            logits = logits_of_model.logits(states).float()
            chunk_losses = torch.nn.functional.cross_entropy(
                logits, targets[chunk], reduction="none"
            )
            total = (chunk_losses * factors[chunk]).sum()
            if self.word_ends is not None:
                end_rows = end_factors[chunk].nonzero()[:, 0]
                end_losses = _word_end_nats(logits, end_rows, self.word_ends)
                total = total + (end_losses * end_factors[chunk][end_rows]).sum()
            return total

        weighted_sum = logits_of_model.sum(
            positions, weighted, None if weights is None else torch.ones_like(loss)
        )
        return torch.stack(
            [nats.sum(), loss.detach() + (weighted_sum - weighted_sum.detach()) / chunk_weight]
        )

    def total(self, losses: "torch.Tensor") -> "torch.Tensor":
        """The weighted sum of both."""
        return self.settings.next_weight * losses[0] + self.settings.weight * losses[1]

    def _taught(
        self, inputs: "dict[str, torch.Tensor]", chunks: "torch.Tensor"
    ) -> "tuple[torch.Tensor, torch.Tensor]":
        """The teacher's log-probabilities of the chunks, at the indices of their numbers.

        The own chunks are joined if they are to be debiased, and are returned as well.
        """
        import torch

        from lexigraft.inference.chunked_logits import IGNORED, chunked_logits, targets_ahead

        if not inputs:
            return torch.zeros(chunks.shape, device=self.teacher.device), chunks
        teacher_chunks = inputs.pop("chunks")
        labels = inputs["input_ids"].where(teacher_chunks.ne(IGNORED), IGNORED)
        targets = targets_ahead(labels, 1, inputs.get("position_ids"))
        # A chunk's last token: the next one has another number, or none.
        ends = teacher_chunks.ne(
            torch.nn.functional.pad(teacher_chunks[:, 1:], (0, 1), value=IGNORED)
        )
        ends &= teacher_chunks.ne(IGNORED)
        logits = chunked_logits(self.teacher, {**inputs, "use_cache": False})
        nats, end_nats = _nats(logits, targets, ends, self.teacher_word_ends)
        size = chunks.shape[1]
        if self.teacher_word_ends is None:
            return _of_chunks(nats, teacher_chunks, size), chunks
        slots = teacher_chunks.where(ends, size)  # the last column is for no chunk
        end_scores = nats.new_zeros((len(nats), size + 1)).scatter(1, slots, -end_nats)[:, :size]
        joined = join_chunks(chunks, end_scores.exp() > self.settings.debias)
        teacher_chunks = joined.gather(1, teacher_chunks.clamp(min=0)).where(
            teacher_chunks.ne(IGNORED), IGNORED
        )
        return _of_chunks(nats, teacher_chunks, size) + end_scores, joined


def matching(teacher: "torch.Tensor", model: "torch.Tensor", temperature: float) -> "torch.Tensor":
    """The binary cross-entropy of log-probabilities of chunks, of the same shape, in nats.

    With `p = exp(taught / temperature - EPSILON)` and `q` from `ours` likewise, it is
    `-p log(q) - (1 - p) log(1 - q)`: KL(p || q) of "this text or any other", plus the entropy of
    `p`, which training does not change. Both are computed as in the published code (tokenkit,
    `binary_ce`).
    """
    import torch

    log_p, log_q = (scores.float() / temperature - EPSILON for scores in (teacher, model))
    # log(1 - q), without cancellation.
    small = log_q < -math.log(2)
    log_not_q = torch.where(small, (-log_q.exp()).log1p(), (-torch.expm1(log_q)).log())
    return -(log_p.exp() * log_q - torch.expm1(log_p) * log_not_q)


def word_end_ids(tokenizer: "PreTrainedTokenizerFast") -> "np.ndarray":
    """Ids of the tokens before which a word ends, int64, ascending.

    They begin with a space, tab or line break, or are special (tokenkit, `get_space_mask`).
    """
    import numpy as np

    from lexigraft.vocabulary.token_bytes import special_ids, token_bytes

    pieces = token_bytes(tokenizer)
    blank = {
        number for number, piece in enumerate(pieces) if piece.startswith((b" ", b"\t", b"\n"))
    }
    return np.array(sorted(blank | special_ids(tokenizer)))


def join_chunks(chunks: "torch.Tensor", word_ends: "torch.Tensor") -> "torch.Tensor":
    """Join each chunk with the next one where no word ends, [batch, tokens] int64.

    A chunk has the index of its last token as its number; `word_ends` [batch, tokens] bool are read
    at these indices. A chunk that no other follows immediately, such as the last one of a document,
    is joined with none (tokenkit, `merge_by_space_prob`, whose sequences have no gaps).
    """
    import torch

    from lexigraft.inference.chunked_logits import IGNORED

    size = chunks.shape[1]
    positions = torch.arange(size, device=chunks.device)
    followed = torch.nn.functional.pad(chunks[:, 1:], (0, 1), value=IGNORED).ne(IGNORED)
    last = _is_last(chunks) & (word_ends | ~followed)
    # For each token, the first of these at or after it.
    numbers = positions.where(last, size - 1).flip(1).cummin(1).values.flip(1)
    return numbers.where(chunks.ne(IGNORED), IGNORED)


def _is_last(chunks: "torch.Tensor") -> "torch.Tensor":
    """Whether each own token is the last of its chunk, whose number is its index."""
    import torch

    return chunks.eq(torch.arange(chunks.shape[1], device=chunks.device))


def _nats(
    logits: "ChunkedLogits",
    targets: "torch.Tensor",
    ends: "torch.Tensor",
    word_ends: "np.ndarray | None",
) -> "tuple[torch.Tensor, torch.Tensor]":
    """The nats of targets, and those of a word's end at the positions `ends`, [batch, tokens].

    The latter are zero without `word_ends`. No gradients.
    """
    import torch

    from lexigraft.inference.chunked_logits import IGNORED, nll_per_token, per_position

    if word_ends is None:
        nats = nll_per_token(logits, targets)
        return nats, torch.zeros_like(nats)
    flat_targets, flat_ends = targets.flatten(), ends.flatten()

    def nats_of_chunk(scores: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        values = scores.new_zeros((len(scores), 2))
        values[:, 0] = torch.nn.functional.cross_entropy(
            scores, flat_targets[positions], reduction="none"
        )
        rows = flat_ends[positions].nonzero()[:, 0]
        values[rows, 1] = _word_end_nats(scores, rows, word_ends)
        return values

    values = per_position(logits, targets.ne(IGNORED) | ends, nats_of_chunk)
    return values[..., 0], values[..., 1]


def _word_end_nats(
    logits: "torch.Tensor", at: "torch.Tensor", word_ends: "np.ndarray"
) -> "torch.Tensor":
    """-log of the probability that one of these tokens follows, of the rows `at` of the logits."""
    import torch

    scores = logits[at]
    ending = torch.zeros(scores.shape[1], dtype=torch.bool, device=scores.device)
    ending = ending.index_fill(0, torch.tensor(word_ends, device=scores.device), True)
    return scores.logsumexp(-1) - scores.where(ending, -math.inf).logsumexp(-1)


def _of_chunks(nats: "torch.Tensor", chunks: "torch.Tensor", size: int) -> "torch.Tensor":
    """Log-probabilities of chunks, at the indices of their numbers, [batch, size].

    `nats` [batch, m] are those of each position's next token, `chunks` the tokens' chunk numbers.
    """
    import torch

    from lexigraft.inference.chunked_logits import IGNORED

    scores = torch.nn.functional.pad(-nats[:, :-1], (1, 0))
    slots = chunks.where(chunks.ne(IGNORED), size)  # the last column is for no chunk
    return scores.new_zeros((len(scores), size + 1)).scatter_add_(1, slots, scores)[:, :size]
