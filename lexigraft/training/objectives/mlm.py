"""Masked language modelling: an encoder predicts tokens drawn by `likelihood.Masker`."""

from dataclasses import replace
from typing import TYPE_CHECKING

from lexigraft.randomness import seed_from
from lexigraft.setting_types import MASKED
from lexigraft.training.objective import Objective

if TYPE_CHECKING:
    from lexigraft.training.data import TrainingSequence


MASKING = 0.15  # share of the tokens that are masked


class MaskedModeling(Objective):
    """The negative log-likelihood of the masked tokens, in nats; only these have logits."""

    predicts = "masked tokens, for sources of `kind: masked`"
    model_kind = MASKED

    @classmethod
    def prepare_data(cls, sequences, context, seed):
        """The sequences, with a new mask at each visit (Liu et al. 2019, §4.1).

        A mask depends only on the index of its visit and the seed, so neither interruptions nor
        the number of processes change it. Raises a UserError if the tokenizer has no mask token.
        """
        from lexigraft.inference.likelihood import Masker
        from lexigraft.training.data import SequenceDataset

        masker = Masker(context.tokenizer, MASKING)

        def mask(sequence: "TrainingSequence", index: int) -> "TrainingSequence":
            visit = seed_from(*seed, "mask", index)
            tokens, labels = masker(sequence.tokens, visit, sequence.targets)
            return replace(sequence, tokens=tokens, labels=labels, targets=None)

        return SequenceDataset(sequences.source, sequences.order, mask)

    def targets(self, batch):
        """The masked tokens."""
        return [batch["labels"]]

    def losses(self, model, inputs, weights=None):
        """Nats of all masked tokens, summed, [1]."""
        from lexigraft.inference.chunked_logits import chunked_logits, sum_nll

        labels = inputs.pop("labels")
        logits = chunked_logits(model, inputs)
        return sum_nll(logits, labels, weight=None if weights is None else weights[0])
