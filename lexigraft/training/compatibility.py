"""Checks, before anything is trained, that a model can be trained with a strategy."""

import inspect
from collections.abc import Iterable

import torch
from transformers import PreTrainedModel

from lexigraft.errors import UserError
from lexigraft.setting_types import CAUSAL, MASKED
from lexigraft.source.model import is_masked
from lexigraft.source.positions import positions_of
from lexigraft.training.data import SequenceDataset
from lexigraft.training.registry import objective, objectives
from lexigraft.training.settings import Strategy

_TOLERANCE = 0.01  # for rounding, as a share of the effect of another document


def check_objectives(model: PreTrainedModel, strategy: Strategy) -> None:
    """Raise a UserError if an objective of a strategy is for another kind of model.

    It is also raised if VocADT's adapter is to be trained in an encoder: VocADT defines it for
    causal models only.
    """
    masked = is_masked(model)
    kind = MASKED if masked else CAUSAL
    for number, phase in enumerate(strategy.phases):
        needed = objective(phase.objective).model_kind
        if needed != kind:
            fitting = [name for name in objectives() if objective(name).model_kind == kind]
            raise UserError(
                f"strategy.phases[{number}]: objective {phase.objective} does not fit "
                f"{type(model).__name__}, a {kind} language model; use {' or '.join(fitting)}"
            )
        if masked and phase.adapter is not None:
            raise UserError(
                f"strategy.phases[{number}]: an adapter is for causal models; for an encoder, "
                "train embeddings and head themselves"
            )


def check_length(model: PreTrainedModel, plan: Iterable[SequenceDataset]) -> None:
    """Raise a UserError if a phase has a sequence that is longer than the model's context."""
    limit = positions_of(model)
    for number, sequences in enumerate(plan):
        longest = int(sequences.tokens().max())
        if limit is not None and longest > limit:
            raise UserError(
                f"strategy: phase {number} reads sequences of {longest} tokens, but the source "
                f"model has {limit} positions; lower the phase's length to {limit}"
            )


def check_document_separation(model: PreTrainedModel) -> None:
    """Raise a UserError if an architecture does not support `packing: apart`.

    Most architectures recognize documents by their positions. The model itself is tested, in
    evaluation mode: the second of two documents must have the same logits as alone, up to rounding.
    """
    attention = model.config._attn_implementation
    if attention == "flash_attention_2":  # does so only in batches of one sequence
        raise UserError(f"packing: {attention} does not keep documents apart; use flex_attention")
    if attention == "flex_attention":  # has the same mask as others, but runs on GPUs only
        model.set_attn_implementation("eager")
    separates = False
    if "position_ids" in inspect.signature(model.forward).parameters:
        both = torch.arange(1, 9, device=model.device)[None]
        positions = torch.arange(4, device=model.device).repeat(2)[None]
        with torch.no_grad():
            joined = model(input_ids=both, use_cache=False).logits[:, 4:]
            alone = model(input_ids=both[:, 4:], use_cache=False).logits
            packed = model(input_ids=both, position_ids=positions, use_cache=False).logits[:, 4:]
        difference = (joined - alone).abs().max()
        separates = bool((packed - alone).abs().max() <= _TOLERANCE * difference)
    model.set_attn_implementation(attention)
    if not separates:
        raise UserError(
            f"packing: {type(model).__name__} does not keep the documents of a sequence apart; "
            "use packing: joined"
        )
