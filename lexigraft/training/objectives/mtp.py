"""Multi-token prediction: while training, an extra head predicts the token after next."""

from typing import TYPE_CHECKING

import torch

from lexigraft.errors import UserError
from lexigraft.inference.chunked_logits import (
    IGNORED,
    ChunkedLogits,
    chunked_logits,
    sum_nll,
    targets_ahead,
)
from lexigraft.training.objectives.interface import Objective

if TYPE_CHECKING:
    from transformers import PreTrainedModel

AHEAD = (1, 2)  # how far ahead the model's own head and the extra one predict
EXTRA_HEAD = "extra_head"  # its name in the model while a phase runs


class Mtp(Objective):
    """The sum of two mean losses: of next tokens, and of tokens after next.

    Parameters
    ----------
    extra_head
        The head that predicts the token after next, trained in place.
    as_head
        Whether the model does to the extra logits what it does to its own (Gemma 2 caps them,
        Cohere scales them); the code of paper 000 leaves them as their head gives them.
    trained
        Whether the phase trains the heads.
    """

    parts = ("next_loss", "after_next_loss")

    def __init__(self, extra_head: torch.nn.Linear, *, as_head: bool, trained: bool):
        self.extra_head = extra_head.requires_grad_(trained)
        self.as_head = as_head

    def modules(self) -> dict[str, torch.nn.Module]:
        """The extra head."""
        return {EXTRA_HEAD: self.extra_head}

    def count(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """How many next tokens there are, and how many tokens after next, [2]."""
        return torch.stack([targets.ne(IGNORED).sum() for targets in _targets(batch)])

    def losses(self, model: "PreTrainedModel", inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Nats of next tokens and of tokens after next, [2].

        Raises
        ------
        UserError
            The model computes its logits in another way than by its head, position by position.
        """
        soon, later = _targets(inputs)
        inputs.pop("labels")
        readout = chunked_logits(model, {**inputs, "use_cache": False})
        if not readout.from_head:
            raise UserError(
                f"objective: mtp does not fit {type(model).__name__}, whose logits are not its "
                "output head's, position by position; use clm"
            )
        extra = sum_nll(readout, later, lambda states: self.extra_logits(readout, states))
        return torch.cat([sum_nll(readout, soon), extra])

    def extra_logits(self, readout: ChunkedLogits, states: torch.Tensor) -> torch.Tensor:
        """The extra head's logits [n, vocabulary] of states [n, hidden]."""
        return readout.logits(states, self.extra_head) if self.as_head else self.extra_head(states)


def new_extra_head(model: "PreTrainedModel", start: str, seed: int) -> torch.nn.Linear:
    """A second output head of the shape, dtype and device of the model's own, tied to nothing.

    Parameters
    ----------
    start
        `copied`: begins as the model's head is now (paper 000, §5). `random`: normal with mean 0
        and the deviation with which the model's own weights were drawn (paper 000, Table 10).
    seed
        Of the random draw.

    Raises
    ------
    UserError
        The model's head is not a linear layer.
    """
    own = model.get_output_embeddings()
    if not isinstance(own, torch.nn.Linear):
        raise UserError(
            f"objective: mtp needs a linear output head; {type(model).__name__} has none; use clm"
        )
    tensors = {name: tensor.detach().clone() for name, tensor in own.named_parameters()}
    if start == "random":
        # Drawn on the CPU, so that every device gets the same numbers.
        draw = torch.randn(own.weight.shape, generator=torch.Generator().manual_seed(seed))
        tensors["weight"].copy_(draw * _deviation(model))
        if "bias" in tensors:
            tensors["bias"].zero_()
    return extra_head_of(tensors)


def extra_head_of(tensors: dict[str, torch.Tensor]) -> torch.nn.Linear:
    """The extra head that holds `weight` [rows, hidden] and, if it is there, `bias` [rows]."""
    rows, hidden = tensors["weight"].shape
    head = torch.nn.Linear(hidden, rows, bias="bias" in tensors, device="meta")
    head.load_state_dict(tensors, assign=True)
    return head


def _targets(batch: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """For each position the token of each head, two times [batch, tokens]."""
    return [targets_ahead(batch["labels"], ahead, batch.get("position_ids")) for ahead in AHEAD]


def _deviation(model: "PreTrainedModel") -> float:
    # Not every configuration says it; 0.02 is what those that do say unless told otherwise.
    return getattr(model.config.get_text_config(), "initializer_range", 0.02)
