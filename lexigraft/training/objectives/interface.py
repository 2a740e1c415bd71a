"""What every objective offers to `phase.PhaseTrainer`."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Objective(ABC):
    """A loss of one part or several, each a mean over its own targets in an optimizer step.

    The step's loss is made of the parts, by default their sum, however many passes the step takes.

    Attributes
    ----------
    parts : tuple of str
        Names of the parts in the log, ending in `_loss`; an objective of one part needs none.
    """

    parts: tuple[str, ...] = ()

    def modules(self) -> dict[str, torch.nn.Module]:
        """What belongs to the model while the phase runs, by name, such as an extra head.

        The optimizer, gradient clipping and checkpoints see it; what is stored does not.
        """
        return {}

    @abstractmethod
    def count(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """How many targets a pass has for each part, [parts or 1], int64."""

    @abstractmethod
    def losses(self, model: "PreTrainedModel", inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """The parts, each summed over the targets of a pass, [parts or 1], float32.

        Parameters
        ----------
        model
            The model that is trained, without a wrapper.
        inputs
            A batch of `data.collate`, on the model's device.
        """

    def total(self, losses: torch.Tensor) -> torch.Tensor:
        """The loss of means or sums [parts or 1], a linear function of them."""
        return losses.sum()
