"""What a model takes in at once: no more tokens than it has positions, one document or several."""

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lexigraft.errors import UserError
from lexigraft.source.positions import positions_of
from lexigraft.training.data import Sequences

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SHARE = 0.01  # of what seeing another document changes, by which rounding may change a document


def check_length(model: "PreTrainedModel", plan: Iterable[Sequences]) -> None:
    """Refuse sequences that are longer than the model.

    Raises
    ------
    UserError
        A phase has one.
    """
    limit = positions_of(model)
    for number, sequences in enumerate(plan):
        longest = int(sequences.tokens().max())
        if limit is not None and longest > limit:
            raise UserError(
                f"strategy: phase {number} reads sequences of {longest} tokens, and the source "
                f"model has {limit} positions; lower the phase's length to {limit}"
            )


def check_apart(model: "PreTrainedModel") -> None:
    """Refuse to keep documents apart in an architecture that does not.

    Most tell documents by their positions. This asks the model itself: the second of two documents
    must come out as it does alone, but for rounding.

    Raises
    ------
    UserError
        It does not.
    """
    import torch

    apart = False
    if "position_ids" in inspect.signature(model.forward).parameters:
        both = torch.arange(1, 9, device=model.device)[None]
        positions = torch.arange(4, device=model.device).repeat(2)[None]
        was_training = model.training
        model.eval()
        with torch.no_grad():
            joined = model(input_ids=both, use_cache=False).logits[:, 4:]
            alone = model(input_ids=both[:, 4:], use_cache=False).logits
            kept = model(input_ids=both, position_ids=positions, use_cache=False).logits[:, 4:]
        model.train(was_training)
        apart = bool((kept - alone).abs().max() <= _SHARE * (joined - alone).abs().max())
    if not apart:
        raise UserError(
            f"packing: {type(model).__name__} does not keep the documents of a sequence apart; "
            "use packing: joined"
        )
