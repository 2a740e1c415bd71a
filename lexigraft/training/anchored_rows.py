"""Keeps the rows of new tokens close to their initial values, with a penalty in the loss.

L2-SP (Li, Grandvalet and Davoine 2018) for rows: the starting point is the recipe of a new token.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from lexigraft.training.new_rows import NEW_ROWS
from lexigraft.training.objective import Objective, PenalizedObjective

MATRICES = ("input", "output")


def new_rows_of(model: PreTrainedModel, ids: Sequence[int]) -> dict[str, torch.Tensor]:
    """Copy the rows of tokens in both matrices, name -> [n, hidden]; tied matrices give one."""
    places = torch.tensor(sorted(map(int, ids)), device=model.device)
    return {
        name: module.weight.detach()[places].clone() for name, module in _matrices(model).items()
    }


class AnchoredRows(PenalizedObjective):
    """Another objective plus `weight` times the squared distance of new rows from their start.

    The distance between whole rows is averaged over the `ids` and summed over the trained matrices.
    `rows` are what `new_rows_of` returned before any training. In the training log, `anchor_loss`
    includes the weight, so that the parts add up to the loss.
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
        # A module, like a teacher, so that it is neither sharded nor copied with the model.
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
    """The layers of both matrices; a tied head is not listed."""
    embeddings: Any = model.get_input_embeddings()
    head: Any = model.get_output_embeddings()
    both = {MATRICES[0]: embeddings}
    if head is not None and head.weight is not embeddings.weight:
        both[MATRICES[1]] = head
    return both
