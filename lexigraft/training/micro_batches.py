"""Splits each optimizer step into micro-batches: one forward and backward pass of one process.

A step is the same for any number of processes and any memory: each of its sequences is in exactly
one micro-batch, and its loss is divided by the targets of all of them.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from lexigraft.training.data import SequenceDataset, TrainingSequence, collate

if TYPE_CHECKING:
    import torch

# Of one micro-batch. The vocabulary does not matter: see `inference.chunked_logits`.
MICRO_BATCH_TOKENS = {"cpu": 512, "cuda": 8192}

# The micro-batch of a process that has no sequence left while others have; nothing in it counts.
_EMPTY = TrainingSequence(np.zeros(2, dtype=np.int32), np.zeros(2, dtype=bool))


def optimizer_steps(sequences: int, batch_sequences: int) -> int:
    """Optimizer steps of a phase; the last one may have fewer sequences."""
    return math.ceil(sequences / batch_sequences)


def micro_batch_size(batch_sequences: int, length: int, device_type: str) -> int:
    """The most sequences of `length` tokens in one micro-batch, of `batch_sequences` of a step."""
    return max(1, min(MICRO_BATCH_TOKENS[device_type] // length, batch_sequences))


def micro_batches_per_step(sequences: int, size: int, world_size: int) -> int:
    """Micro-batches of each process for one step of so many sequences, at most `size` in each."""
    return math.ceil(sequences / (size * world_size))


def split_into_micro_batches(
    sequences: int, batch_sequences: int, size: int, world_size: int, rank: int
) -> list[list[int]]:
    """Indices of the sequences in each micro-batch of one process, step after step.

    All processes have equally many micro-batches, some of which may be empty. Those of a step, over
    all processes, differ by at most one sequence; the last step has what is left.
    """
    batches: list[list[int]] = []
    for begin in range(0, sequences, batch_sequences):
        step = np.arange(begin, min(begin + batch_sequences, sequences))
        count = micro_batches_per_step(len(step), size, world_size) * world_size
        parts = np.array_split(step, count)
        batches += [part.tolist() for part in parts[rank::world_size]]
    return batches


def micro_batch_loader(
    sequences: SequenceDataset, batches: list[list[int]], *, pin_memory: bool
) -> "torch.utils.data.DataLoader":
    """A data loader over the micro-batches of `split_into_micro_batches`."""
    from torch.utils.data import DataLoader

    return DataLoader(
        sequences,  # type: ignore[arg-type]  # a list of sequences to all that a loader asks of it
        batch_sampler=batches,
        collate_fn=_collate,
        pin_memory=pin_memory,
    )


def _collate(sequences: list[TrainingSequence]) -> dict[str, "torch.Tensor"]:
    return collate(sequences or [_EMPTY])
