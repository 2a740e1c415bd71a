"""Objectives whose teacher reads the text with its own tokenizer.

Snakemake reads their declarations (see `registry`): functions that compute import torch themselves.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from lexigraft.errors import UserError
from lexigraft.inference.text_encoding import IGNORED
from lexigraft.source.positions import context_length
from lexigraft.training.objective import Objective
from lexigraft.training.settings import Phase

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

_CHECKED = 16  # number of first sequences, of which at least one must have a chunk


class ChunkDistillation(Objective):
    """Compares a teacher, which reads its own tokens, by the chunks of a text (`TokenAligner`).

    The one key of the objective's phases has the `settings`. The teacher reads at most
    `teacher_length` tokens of a sequence.
    """

    needs_teacher = True
    teacher_key: ClassVar[str]  # the settings that errors about the teacher begin with

    def __init__(self, teacher: "PreTrainedModel", settings: Any, teacher_length: int):
        self.teacher, self.settings, self.teacher_length = teacher, settings, teacher_length

    @classmethod
    def settings_of(cls, phase: Phase) -> Any:
        """A phase's settings for this objective; None if the phase has another objective."""
        [key] = cls.keys()
        return getattr(phase, key, None)

    @classmethod
    def for_phase(cls, context):
        """Create the objective with the teacher of the training job."""
        length = cls.length_for(context.phase, context.teacher.config)
        return cls(context.teacher.model(), cls.settings_of(context.phase), length)

    @classmethod
    def length_for(cls, phase: Phase, teacher: Any) -> int:
        """The maximum tokens of a sequence that the teacher of a configuration reads in a phase."""
        length = 4 * phase.length
        return min(length, context_length(teacher) or length)

    @classmethod
    def check_inputs(cls, inputs, tokenizer, strategy):
        """Raise a UserError if the source model in the folder `teacher` cannot be the teacher."""
        from lexigraft.training.teacher import Teacher

        teacher = Teacher(inputs["teacher"])
        for phase in strategy.phases:
            if cls.settings_of(phase) is not None:
                teacher.check(cls.teacher_key, phase.length)

    @classmethod
    def prepare_data(cls, sequences, context, seed):
        """Add the teacher's tokens; raises a UserError if the first sequences have no chunk."""
        from lexigraft.training.data import SequenceDataset
        from lexigraft.training.teacher import TokenAligner

        teacher = context.teacher
        length = cls.length_for(context.phase, teacher.config)
        aligner = TokenAligner(context.tokenizer, teacher.tokenizer(), length)
        aligned = SequenceDataset(
            sequences.source,
            sequences.order,
            lambda sequence, _: replace(sequence, teacher=aligner.align(sequence)),
        )
        checked = min(_CHECKED, len(aligned))
        if all((aligned[number].teacher.chunks == IGNORED).all() for number in range(checked)):
            raise UserError(
                f"{cls.teacher_key}: the tokens of {teacher.name} and of the cell have no common "
                f"boundary in the first {checked} sequences, so one cannot teach the other; use "
                "objective clm"
            )
        return aligned


def chunks_of(batch: "dict[str, torch.Tensor]") -> "tuple[torch.Tensor, torch.Tensor]":
    """The chunk of each of the model's tokens, and whether the token is its last; [batch, tokens].

    The number of a chunk is the index of its last token; without sequences, all are IGNORED.
    """
    import torch

    chunks = batch.get("chunks", torch.full_like(batch["labels"], IGNORED))
    return chunks, chunks.eq(torch.arange(chunks.shape[1], device=chunks.device))


def pop_teacher_inputs(batch: "dict[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
    """Remove from a batch what the model does not read; return the teacher's inputs."""
    for name in ("chunks", "labels"):
        batch.pop(name, None)
    names = [name for name in batch if name.startswith("teacher_")]
    return {name.removeprefix("teacher_"): batch.pop(name) for name in names}
