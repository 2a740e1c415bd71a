"""Which sequences of an optimizer step a process takes in each of its passes.

A step is the same for any number of processes and whatever fits their memory: its sequences are
dealt out without repeating any, and its loss is divided by the targets of all of them.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from lexigraft.training.data import Sequence, Sequences, collate

if TYPE_CHECKING:
    import torch

# What a process computes that has no sequence left while the others have.
_NOTHING = Sequence(np.zeros(2, dtype=np.int32), np.zeros(2, dtype=bool))


def rounds(sequences: int, per_pass: int, processes: int) -> int:
    """Passes of each process for one step of so many sequences, at most `per_pass` in each."""
    return math.ceil(sequences / (per_pass * processes))


def deal(
    sequences: int, batch_sequences: int, per_pass: int, processes: int, process: int
) -> list[list[int]]:
    """Indices of the sequences in each pass of one process, step after step; some may be empty.

    All processes have as many passes. Those of a step, of all processes together, are as equal as
    can be; the last step has what is left.
    """
    dealt: list[list[int]] = []
    for begin in range(0, sequences, batch_sequences):
        step = np.arange(begin, min(begin + batch_sequences, sequences))
        parts = np.array_split(step, rounds(len(step), per_pass, processes) * processes)
        dealt += [part.tolist() for part in parts[process::processes]]
    return dealt


def loader(
    sequences: Sequences, passes: list[list[int]], *, pin_memory: bool
) -> "torch.utils.data.DataLoader":
    """Batches of the sequences as `deal` gave them out."""
    from torch.utils.data import DataLoader

    return DataLoader(
        sequences,  # type: ignore[arg-type]  # a list of sequences to all that a loader asks of it
        batch_sampler=passes,
        collate_fn=_collate,
        pin_memory=pin_memory,
    )


def _collate(sequences: list[Sequence]) -> dict[str, "torch.Tensor"]:
    return collate(sequences or [_NOTHING])
