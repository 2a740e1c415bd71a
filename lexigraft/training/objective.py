"""The interface of training objectives: what one declares and computes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from lexigraft.source.kind import CAUSAL
from lexigraft.training.phase_context import PhaseContext

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lexigraft.training.data import SequenceDataset
    from lexigraft.training.settings import Phase, Strategy


class Objective(ABC):
    """A loss of one part or several, each a mean over its own targets in an optimizer step.

    The step's loss is computed from the parts, by default as their sum, and does not depend on the
    number of micro-batches.

    Attributes
    ----------
    model_kind
        Which language models it trains: `source.kind.CAUSAL` or `MASKED`.
    needs_teacher
        Whether a training job needs the input `teacher`.
    options
        Keys of a phase that this objective alone takes.
    loss_names
        Names of the parts in the training log, ending in `_loss`; one part alone needs no name.
    """

    model_kind: ClassVar[str] = CAUSAL
    needs_teacher: ClassVar[bool] = False
    options: ClassVar[tuple[str, ...]] = ()
    loss_names: tuple[str, ...] = ()

    @classmethod
    def for_phase(cls, context: PhaseContext) -> "Objective":
        """The objective by a phase's settings; by default it has none."""
        return cls()

    @classmethod
    def check_inputs(
        cls, inputs: Mapping[str, Any], tokenizer: "PreTrainedTokenizerFast", strategy: "Strategy"
    ) -> None:
        """Check the inputs of a training job before anything is trained; by default, nothing.

        Raises
        ------
        UserError
            An input does not fit.
        """
        return

    @classmethod
    def prepare_data(
        cls,
        sequences: "SequenceDataset",
        phase: "Phase",
        tokenizer: "PreTrainedTokenizerFast",
        seed: list[Any],
    ) -> "SequenceDataset":
        """The sequences of a phase as the model reads them; by default as they are.

        `seed` are the names of the study, the cell and the phase.
        """
        return sequences

    def modules(self) -> "dict[str, torch.nn.Module]":
        """What belongs to the model during the phase, by name, such as an extra head.

        The optimizer, gradient clipping and checkpoints include it; the stored cell does not.
        """
        return {}

    @abstractmethod
    def count_targets(self, batch: "dict[str, torch.Tensor]") -> "torch.Tensor":
        """How many targets a micro-batch has for each part, [parts or 1], int64."""

    @abstractmethod
    def losses(self, model: "PreTrainedModel", inputs: "dict[str, torch.Tensor]") -> "torch.Tensor":
        """The parts, each summed over the targets of a micro-batch, [parts or 1], float32.

        Parameters
        ----------
        model
            The model that is trained, without a wrapper.
        inputs
            A batch of `data.collate`, on the model's device.
        """

    def total(self, losses: "torch.Tensor") -> "torch.Tensor":
        """The loss computed from means or sums [parts or 1], a linear function of them."""
        return losses.sum()
