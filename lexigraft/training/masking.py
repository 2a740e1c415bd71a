"""Masked tokens: which of a text's tokens an encoder has to restore, and what it reads instead."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError
from lexigraft.inference.masked_likelihood import Masker
from lexigraft.randomness import seed_from
from lexigraft.source.kind import is_masked
from lexigraft.training.data import Sequence, Sequences
from lexigraft.training.settings import Phase, Strategy

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


def check_objectives(model: "PreTrainedModel", strategy: Strategy) -> None:
    """Check that a model is trained for what it computes.

    Raises
    ------
    UserError
        A masked language model is to predict next tokens, or a causal one masked tokens; or an
        encoder is to wear an adapter, which paper 001 has for causal models alone.
    """
    masked = is_masked(model)
    for number, phase in enumerate(strategy.phases):
        if (phase.objective == "mlm") != masked:
            way = "use objective mlm" if masked else "mlm is for encoders, such as RoBERTa"
            raise UserError(
                f"strategy.phases[{number}]: objective {phase.objective} does not fit "
                f"{type(model).__name__}, a {'masked' if masked else 'causal'} language model; "
                f"{way}"
            )
        if masked and phase.adapter is not None:
            raise UserError(
                f"strategy.phases[{number}]: an adapter is for causal models; of an encoder, train "
                "embeddings and head themselves"
            )


def as_read(
    sequences: Sequences, phase: Phase, tokenizer: "PreTrainedTokenizerFast", seed: list[Any]
) -> Sequences:
    """The sequences as the model reads them: masked in phases of objective `mlm`.

    `seed` are the names of the study, the cell and the phase.
    """
    if phase.objective != "mlm":
        return sequences
    return MaskedSequences(sequences, Masker(tokenizer, phase.masking), seed)


class MaskedSequences(Sequences):
    """Sequences in visiting order, masked anew at each visit (Liu et al. 2019, §4.1).

    The mask of a visit hangs on its number alone, so a run that goes on after an interruption, or
    on several processes, reads what it would have read.

    Parameters
    ----------
    seed
        Names of the study, the cell and the phase.
    """

    def __init__(self, sequences: Sequences, masker: Masker, seed: list[Any]):
        super().__init__(sequences.text, sequences.order)
        self._masker, self._seed = masker, seed

    def __getitem__(self, index: int) -> Sequence:
        sequence = super().__getitem__(index)
        seed = seed_from(*self._seed, "mask", index)
        read, labels = self._masker(sequence.tokens, seed, sequence.targets)
        return replace(sequence, tokens=read, labels=labels, targets=None)
