"""Masked tokens: which of a text's tokens an encoder has to restore, and what it reads instead."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import DataCollatorForLanguageModeling

from lexigraft.errors import UserError
from lexigraft.randomness import seed_from
from lexigraft.source.kind import is_masked
from lexigraft.training.data import Sequence, Sequences
from lexigraft.training.settings import Phase, Strategy

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

SHARE = 0.15  # of BERT, RoBERTa and paper 004 (Appendix G)


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


class Masker:
    """Draws tokens to restore; reads `<mask>` at 80 % of them, another token at 10 %, it at 10 %.

    (Devlin et al. 2019, §3.1; the draw is that of transformers' data collator.) Special tokens are
    never drawn.

    Parameters
    ----------
    share
        How likely each token is to be drawn.

    Raises
    ------
    UserError
        The tokenizer has no mask token.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerFast", share: float = SHARE):
        if tokenizer.mask_token is None:
            raise UserError(
                "objective: mlm needs a tokenizer with a mask token; choose a vocabulary made for "
                "an encoder, or objective clm for a causal model"
            )
        self._collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=share)
        self._special = np.array(sorted(set(tokenizer.all_special_ids)))

    def __call__(
        self, tokens: np.ndarray, seed: int, targets: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """What the model reads, and the tokens to restore, IGNORED elsewhere; both [n] int64.

        Parameters
        ----------
        tokens
            [n], special tokens included.
        seed
            The same seed masks the same tokens.
        targets
            [n] bool: which tokens may be drawn; None lets all.
        """
        fixed = np.isin(tokens, self._special)
        if targets is not None:
            fixed |= ~targets
        self._collator.generator = torch.Generator().manual_seed(seed)
        read, labels = self._collator.torch_mask_tokens(
            torch.from_numpy(tokens.astype(np.int64))[None],
            special_tokens_mask=torch.from_numpy(fixed)[None],
        )
        return read[0].numpy(), labels[0].numpy()


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
