"""Objectives whose teacher reads the text of a sequence with its own tokenizer."""

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
_LOOKED_AT = 16  # first sequences, at least one of which must have a chunk


class TaughtByChunks(Objective):
    """Compares teacher and model by the chunks of a text that both have (`token_alignment`).

    The one key of the objective's phases has the `settings`. The teacher is in evaluation mode,
    frozen, on the model's device, and reads at most `teacher_length` tokens of a sequence.
    """

    needs_teacher = True
    teacher_key: ClassVar[str]  # the settings that errors about the teacher begin with

    def __init__(self, teacher: "PreTrainedModel", settings: Any, teacher_length: int):
        self.teacher, self.settings, self.teacher_length = teacher, settings, teacher_length

    @classmethod
    def for_phase(cls, context: PhaseContext) -> Self:
        """Create the objective with the teacher of the training job, see `load_teacher`."""
        from lexigraft.training.teacher import load_teacher

        teacher = load_teacher(context)
        length = cls.length_for(context.phase, teacher.config)
        return cls(teacher, cls.settings_of(context.phase), length)

    @classmethod
    def settings_of(cls, phase: Phase) -> Any:
        """A phase's settings for this objective; None if the phase has another objective."""
        [key] = cls.keys()
        return getattr(phase, key, None)

    @classmethod
    def length_for(cls, phase: Phase, teacher: "PretrainedConfig") -> int:
        """The maximum tokens of a sequence that the teacher of a phase reads."""
        if (given := cls.settings_of(phase).teacher_length) is not None:
            return int(given)
        most = _LENGTHS * phase.length
        return min(most, context_length(teacher) or most)

    @classmethod
    def check_inputs(
        cls, inputs: Mapping[str, Any], tokenizer: "PreTrainedTokenizerFast", strategy: Strategy
    ) -> None:
        """Check that the source model in the folder `teacher` can be the teacher.

        Raises a UserError if it predicts masked tokens, or its context is shorter than a sequence
        of the strategy, or than a phase's `teacher_length`.
        """
        from lexigraft.training.teacher import check_teacher

        for phase in strategy.phases:
            if (settings := cls.settings_of(phase)) is not None:
                length = settings.teacher_length or phase.length
                check_teacher(inputs["teacher"], cls.teacher_key, length)

    @classmethod
    def prepare_data(
        cls, sequences: "SequenceDataset", context: PhaseContext, seed: list[Any]
    ) -> "SequenceDataset":
        """The sequences with the teacher's tokens of the same text.

        Raises a UserError if the first sequences have no chunk.
        """
        from lexigraft.inference.chunked_logits import IGNORED
        from lexigraft.source.model import load_config, open_source
        from lexigraft.training.data import SequenceDataset
        from lexigraft.training.token_alignment import TokenAligner

        source = open_source(context.inputs["teacher"])
        most = cls.length_for(context.phase, load_config(source.folder))
        aligner = TokenAligner(context.tokenizer, source.tokenizer(), most)

        def align(sequence: "TrainingSequence", _: int) -> "TrainingSequence":
            return replace(sequence, teacher=aligner.align(sequence))

        aligned = SequenceDataset(sequences.source, sequences.order, align)
        first = (aligned[place].teacher for place in range(min(_LOOKED_AT, len(aligned))))
        if all(one is None or (one.chunks == IGNORED).all() for one in first):
            raise UserError(
                f"{cls.teacher_key}: the tokens of {source.name} and of the cell have no common "
                f"boundary in the first {min(_LOOKED_AT, len(aligned))} sequences, so one cannot "
                "teach the other; use objective clm"
            )
        return aligned

    def largest_batch(self, sequences: int, length: int) -> "dict[str, torch.Tensor]":
        """A batch with as many tokens as the teacher may read, all of them in chunks."""
        theirs = super().largest_batch(sequences, self.teacher_length)
        theirs["chunks"] = theirs.pop("labels")
        own = super().largest_batch(sequences, length)
        prefixed = {f"teacher_{name}": tensor for name, tensor in theirs.items()}
        return own | {"chunks": own["labels"]} | prefixed


def own_chunks(batch: "dict[str, torch.Tensor]") -> "torch.Tensor":
    """The chunk of each own token, [batch, tokens].

    All are IGNORED in a process that has no sequence left.
    """
    import torch

    from lexigraft.inference.chunked_logits import IGNORED

    return batch.get("chunks", torch.full_like(batch["labels"], IGNORED))


def take_teacher(inputs: "dict[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
    """Remove from a batch what a model does not read; return the teacher's part."""
    for name in ("chunks", "labels"):
        inputs.pop(name, None)
    names = [name for name in inputs if name.startswith("teacher_")]
    return {name.removeprefix("teacher_"): inputs.pop(name) for name in names}
