"""What a phase starts from: its settings, the model, and what earlier phases left."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lexigraft.training.settings import Phase, Strategy


@dataclass
class Progress:
    """What the finished phases of a cell leave to the next one, beside the model's weights.

    Attributes
    ----------
    phases
        How many have finished.
    trained
        Names of the model's own parameters that were trained.
    adapter_size
        How many numbers merged adapters and new rows have.
    extra_head
        The extra head of objective `mtp`.
    from_adapters
        Names of the matrices that VocADT's adapters were merged into.
    with_new_rows
        Names of the matrices of which only the new rows were trained.
    """

    phases: int = 0
    trained: set[str] = field(default_factory=set)
    adapter_size: int = 0
    extra_head: "torch.nn.Linear | None" = None
    from_adapters: set[str] = field(default_factory=set)
    with_new_rows: set[str] = field(default_factory=set)

    @property
    def changed(self) -> set[str]:
        """Names of all parameters that have changed since the first phase began."""
        return self.trained | self.from_adapters | self.with_new_rows


@dataclass(frozen=True)
class PhaseContext:
    """What an objective may read when a phase begins.

    `model` is prepared for the phase; `inputs` and `seed` are those of the training job; what an
    objective leaves to later phases goes into `progress`.
    """

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerFast"
    strategy: "Strategy"
    phase: "Phase"
    progress: Progress
    inputs: Mapping[str, Any]
    seed: list[Any]
