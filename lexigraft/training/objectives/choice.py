"""Which objective a phase has."""

from typing import TYPE_CHECKING, Any

from lexigraft.randomness import seed_from
from lexigraft.training.checkpoints import Progress
from lexigraft.training.objectives.auxiliary import with_auxiliary
from lexigraft.training.objectives.clm import Clm
from lexigraft.training.objectives.distill import distill_from
from lexigraft.training.objectives.interface import Objective
from lexigraft.training.objectives.mlm import Mlm
from lexigraft.training.objectives.mtp import Mtp, new_extra_head
from lexigraft.training.settings import Phase, Strategy
from lexigraft.training.trainable import trains_head

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


def objective_of(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    strategy: Strategy,
    phase: Phase,
    progress: Progress,
    job: dict[str, Any],
) -> Objective:
    """What a phase makes small, with the auxiliary loss of adapters that the model wears.

    The first phase with an extra head makes it, and leaves it in `progress` to the next ones.
    """
    return with_auxiliary(_main(model, tokenizer, strategy, phase, progress, job), model, phase)


def _main(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    strategy: Strategy,
    phase: Phase,
    progress: Progress,
    job: dict[str, Any],
) -> Objective:
    if phase.objective == "clm":
        return Clm()
    if phase.objective == "mlm":
        return Mlm()
    if phase.objective == "distill":
        apart = strategy.packing == "apart"
        return distill_from(job["inputs"]["teacher"], phase, tokenizer, apart=apart)
    if progress.extra_head is None:
        draw = seed_from(*job["seed"], "extra-head")
        progress.extra_head = new_extra_head(model, phase.extra_head, draw)
    as_head = phase.extra_logits == "as-head"
    return Mtp(progress.extra_head, as_head=as_head, trained=trains_head(phase))
