"""Holds the rows of new tokens close to what they were initialized with, by a part of the loss.

L2-SP (Li, Grandvalet and Davoine 2018) for rows: the recipe of a new token is its starting point.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from lexigraft.training.new_rows import NEW_ROWS
from lexigraft.training.objective import Objective, PenalizedObjective

MATRICES = ("input", "output")


def new_rows_of(model: PreTrainedModel, ids: Sequence[int]) -> dict[str, torch.Tensor]:
    """Copies of the rows of tokens in both matrices, name -> [n, hidden]; of tied ones once."""
    places = torch.tensor(sorted(map(int, ids)), device=model.device)
    return {
        name: module.weight.detach()[places].clone() for name, module in _matrices(model).items()
    }


class AnchoredRows(PenalizedObjective):
    """Another objective plus `weight` times the squared distance of new rows from their start.

    The distance is a mean over the `ids`, of whole rows, and summed over the matrices that are
    trained. `rows` are what `new_rows_of` returned before any training. In the training log,
    `anchor_loss` includes the weight, so that the parts add up to the loss.
    """

    penalty_name = "anchor_loss"

    def __init__(
        self,
        objective: Objective,
        ids: Sequence[int],
        rows: Mapping[str, torch.Tensor],
        weight: float,
    ):
        super().__init__(objective)
        self.weight = weight
        # A module, as a teacher is: neither sharded nor copied with the model.
        self.start = torch.nn.Module()
        for name, values in rows.items():
            self.start.register_buffer(name, values)
        some = next(iter(rows.values()))
        places = torch.tensor(sorted(map(int, ids)), device=some.device)
        self.start.register_buffer("places", places)

    def penalty(self, model: PreTrainedModel) -> torch.Tensor:
        """The weighted distance, a scalar."""
        places = self.start.get_buffer("places")
        found = torch.zeros((), device=places.device)
        for name, module in _matrices(model).items():
            rows = getattr(module, NEW_ROWS[0], None)
            if rows is None:
                if not module.weight.requires_grad:
                    continue
                rows = torch.nn.functional.embedding(places, module.weight)
            moved = rows.float() - self.start.get_buffer(name).float()
            found = found + moved.square().sum(-1).mean()
        return self.weight * found


def _matrices(model: PreTrainedModel) -> dict[str, Any]:
    """The layers of both matrices; a tied head is none of its own."""
    embeddings: Any = model.get_input_embeddings()
    head: Any = model.get_output_embeddings()
    both = {MATRICES[0]: embeddings}
    if head is not None and head.weight is not embeddings.weight:
        both[MATRICES[1]] = head
    return both
