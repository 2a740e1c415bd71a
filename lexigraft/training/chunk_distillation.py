"""Objectives whose teacher reads the text with its own tokenizer.

Snakemake reads their declarations (see `registry`): functions that compute import torch themselves.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from lexigraft.errors import UserError
from lexigraft.source.positions import context_length
from lexigraft.training.objective import Objective, PhaseContext
from lexigraft.training.settings import Phase, Strategy

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

    from lexigraft.training.data import SequenceDataset, TrainingSequence

_LENGTHS = 4  # default maximum of a teacher's tokens, as a multiple of the phase's length
_CHECKED = 16  # number of first sequences, of which at least one must have a chunk


class ChunkDistillation(Objective):
    """Compares teacher and model by the chunks of a text that both have (`teacher.TokenAligner`).

    The one key of the objective's phases has the `settings`. The teacher reads at most
    `teacher_length` tokens of a sequence.
    """

    needs_teacher = True
    teacher_key: ClassVar[str]  # the settings that errors about the teacher begin with

    def __init__(self, teacher: "PreTrainedModel", settings: Any, teacher_length: int):
        self.teacher, self.settings, self.teacher_length = teacher, settings, teacher_length

    @classmethod
    def for_phase(cls, context: PhaseContext) -> Self:
        """Create the objective with the teacher of the training job."""
        assert context.teacher is not None
        length = cls.length_for(context.phase, context.teacher.config)
        return cls(context.teacher.model(), cls.settings_of(context.phase), length)

    @classmethod
    def settings_of(cls, phase: Phase) -> Any:
        """A phase's settings for this objective; None if the phase has another objective."""
        [key] = cls.keys()
        return getattr(phase, key, None)

    @classmethod
    def length_for(cls, phase: Phase, teacher: "PretrainedConfig") -> int:
        """The maximum tokens of a sequence that the teacher of a phase reads."""
        length: int | None = cls.settings_of(phase).teacher_length
        default = _LENGTHS * phase.length
        return length or min(default, context_length(teacher) or default)

    @classmethod
    def check_inputs(
        cls, inputs: Mapping[str, Any], tokenizer: "PreTrainedTokenizerFast", strategy: Strategy
    ) -> None:
        """Check that the source model in the folder `teacher` can be the teacher.

        Raises a UserError if it predicts masked tokens, or its context is shorter than a sequence
        of the strategy, or than a phase's `teacher_length`.
        """
        from lexigraft.training.teacher import Teacher

        teacher = Teacher(inputs["teacher"])
        for phase in strategy.phases:
            if (settings := cls.settings_of(phase)) is not None:
                teacher.check(cls.teacher_key, settings.teacher_length or phase.length)

    @classmethod
    def prepare_data(
        cls, sequences: "SequenceDataset", context: PhaseContext, seed: list[Any]
    ) -> "SequenceDataset":
        """The sequences with the teacher's tokens of the same text.

        Raises a UserError if the first sequences have no chunk.
        """
        from lexigraft.inference.chunked_logits import IGNORED
        from lexigraft.training.data import SequenceDataset
        from lexigraft.training.teacher import TokenAligner

        teacher = context.teacher
        assert teacher is not None
        length = cls.length_for(context.phase, teacher.config)
        aligner = TokenAligner(context.tokenizer, teacher.tokenizer(), length)

        def align(sequence: "TrainingSequence", _: int) -> "TrainingSequence":
            return replace(sequence, teacher=aligner.align(sequence))

        aligned = SequenceDataset(sequences.source, sequences.order, align)
        checked = min(_CHECKED, len(aligned))
        alignments = (aligned[number].teacher for number in range(checked))
        if all(tokens is None or (tokens.chunks == IGNORED).all() for tokens in alignments):
            raise UserError(
                f"{cls.teacher_key}: the tokens of {teacher.name} and of the cell have no common "
                f"boundary in the first {checked} sequences, so one cannot teach the other; use "
                "objective clm"
            )
        return aligned


def chunks_of(batch: "dict[str, torch.Tensor]") -> "torch.Tensor":
    """The chunk of each of the model's tokens, [batch, tokens].

    All are IGNORED in a process that has no sequence left.
    """
    import torch

    from lexigraft.inference.chunked_logits import IGNORED

    return batch.get("chunks", torch.full_like(batch["labels"], IGNORED))


def is_last(chunks: "torch.Tensor") -> "torch.Tensor":
    """Whether each of the model's tokens is the last of its chunk, whose number is its index."""
    import torch

    return chunks.eq(torch.arange(chunks.shape[1], device=chunks.device))


def pop_teacher_inputs(batch: "dict[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
    """Remove from a batch what the model does not read; return the teacher's inputs."""
    for name in ("chunks", "labels"):
        batch.pop(name, None)
    names = [name for name in batch if name.startswith("teacher_")]
    return {name.removeprefix("teacher_"): batch.pop(name) for name in names}
