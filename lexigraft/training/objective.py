"""The interface of training objectives, and the context that they get when a phase begins.

Like the files of objectives, this module is read by the Snakefile (see `registry`), so functions
that compute import torch themselves.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from lexigraft.inference.text_encoding import IGNORED
from lexigraft.setting_types import CAUSAL
from lexigraft.training.settings import Phase, Strategy

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lexigraft.training.data import SequenceDataset


@dataclass
class Progress:
    """What the finished phases of a cell pass on to the next one, in addition to the weights."""

    steps: list[int] = field(default_factory=list)  # optimizer steps of each phase
    trained: set[str] = field(default_factory=set)  # names of the model's trained parameters
    flops_per_token: list[float] = field(default_factory=list)  # of a forward pass, by phase
    adapter_size: int = 0  # number of parameters of all adapters
    extra_head: "torch.nn.Linear | None" = None  # of objective `mtp`
    # Names of matrices into which VocADT's adapters were merged, into which LoRA's were merged, and
    # of which only new rows were trained.
    from_adapters: set[str] = field(default_factory=set)
    with_lora: set[str] = field(default_factory=set)
    with_new_rows: set[str] = field(default_factory=set)

    @property
    def phases(self) -> int:
        """The number of finished phases."""
        return len(self.steps)

    @property
    def changed(self) -> set[str]:
        """Names of all parameters that have changed since the first phase began."""
        return self.trained | self.from_adapters | self.with_lora | self.with_new_rows


@dataclass(frozen=True)
class PhaseContext:
    """What an objective may read when a phase begins.

    `model` is prepared for the phase; `seed` is that of the training job; an objective stores in
    `progress` what it passes on to later phases.
    """

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerFast"
    strategy: Strategy
    phase: Phase
    progress: Progress
    seed: list[Any]
    teacher: Any = None  # a `teacher.Teacher`, if the objective needs one


@dataclass(frozen=True)
class TokenCost:
    """What a training token costs, compared with a pass through all layers of a model."""

    model: float = 1.0  # share of the model's layers that a pass computes
    teacher: float = 1.0  # share of the teacher's layers, if there is one
    teacher_tokenizes: bool = False  # the teacher reads the text as tokens of its own vocabulary


class Objective(ABC):
    """A loss of one or several parts, each a mean over its own targets in an optimizer step.

    The step's loss is computed from the parts, by default as their sum, and does not depend on the
    number of micro-batches. Subclasses declare what settings, reports and cost estimates read.
    """

    name: ClassVar[str]  # by default that of the file
    title: ClassVar[str]  # in reports; by default the name in capitals
    predicts: ClassVar[str]  # what the model learns to predict, for the documentation
    version: ClassVar[int] = 1  # raised when code changes its results
    phase: ClassVar[type[Phase]] = Phase  # a subclass has keys that only this objective takes
    model_kind: ClassVar[str] = CAUSAL  # which models it trains: `source.model.CAUSAL` or `MASKED`
    needs_teacher: ClassVar[bool] = False  # whether a training job needs the input `teacher`
    # Names of the parts in the training log, ending in `_loss`; a single part needs no name.
    loss_names: tuple[str, ...] = ()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.name = vars(cls).get("name", cls.__module__.rpartition(".")[2])
        cls.title = vars(cls).get("title", cls.name.upper())

    @classmethod
    def keys(cls) -> set[str]:
        """The keys that only phases with this objective have."""
        return set(cls.phase.model_fields) - set(Phase.model_fields)

    @classmethod
    def teacher_name(cls, phase: Phase, source: str | None) -> str | None:
        """The source model that teaches in a phase, if any; by default the `source`."""
        return source if cls.needs_teacher else None

    @classmethod
    def cost(cls, phase: Phase) -> TokenCost:
        """The cost of a training token in a phase."""
        return TokenCost()

    @classmethod
    def for_phase(cls, context: PhaseContext) -> "Objective":
        """Create the objective of a phase; by default, without any settings."""
        return cls()

    @classmethod
    def check_inputs(
        cls, inputs: Mapping[str, Any], tokenizer: "PreTrainedTokenizerFast", strategy: Strategy
    ) -> None:
        """Raise a UserError, before anything is trained, if an input of the job does not fit."""
        return

    @classmethod
    def prepare_data(
        cls, sequences: "SequenceDataset", context: PhaseContext, seed: list[Any]
    ) -> "SequenceDataset":
        """The sequences of a phase as the model reads them; `seed` names study, cell and phase."""
        return sequences

    def modules(self) -> "dict[str, torch.nn.Module]":
        """Modules that belong to the model during the phase, by name, such as an extra head.

        The optimizer, gradient clipping and checkpoints include them; the stored cell does not.
        """
        return {}

    def targets(self, batch: "dict[str, torch.Tensor]") -> "list[torch.Tensor]":
        """What each position predicts, [batch, tokens] for each part; IGNORED does not count."""
        from lexigraft.inference.chunked_logits import targets_ahead

        return [targets_ahead(batch["labels"], 1, batch.get("position_ids"))]

    def count_targets(self, batch: "dict[str, torch.Tensor]") -> "torch.Tensor":
        """The number of targets of a micro-batch for each part, [parts], int64."""
        import torch

        return torch.stack([part.ne(IGNORED).sum() for part in self.targets(batch)])

    @abstractmethod
    def losses(
        self,
        model: "PreTrainedModel",
        inputs: "dict[str, torch.Tensor]",
        weights: "torch.Tensor | None" = None,
    ) -> "torch.Tensor":
        """The parts, each summed over the targets of a micro-batch, [parts], float32.

        `model` is not wrapped; `inputs` is a batch of `data.collate` on its device. `weights`
        [parts] are the factors of the parts in the loss of the step. If they are given, gradients
        of output heads may be added to `.grad` immediately, see `ChunkedLogits.sum`.
        """

    def total(self, losses: "torch.Tensor") -> "torch.Tensor":
        """The loss computed from means or sums [parts], a linear function of them."""
        return losses.sum()
