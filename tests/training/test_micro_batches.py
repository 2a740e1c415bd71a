"""An optimizer step is split into micro-batches: each sequence once, in any process."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from lexigraft.inference.chunked_logits import IGNORED
from lexigraft.training.data import (
    SequenceDataset,
    collate,
    micro_batch_size,
    micro_batches_per_step,
    pack,
    split_into_micro_batches,
)

FEW = st.integers(1, 7)


def split(sequences, batch, size, processes):
    """The micro-batches of every process."""
    return [
        split_into_micro_batches(sequences, batch, size, processes, rank)
        for rank in range(processes)
    ]


@given(sequences=st.integers(1, 40), batch=st.integers(1, 12), size=FEW, processes=FEW)
def test_every_step_is_the_same_sequences_for_any_number_of_processes(
    sequences, batch, size, processes
):
    everyone = split(sequences, batch, size, processes)
    each_step = micro_batches_per_step(batch, size, processes)
    steps = -(-sequences // batch)
    for step in range(steps):
        taken = [
            index
            for own in everyone
            for micro_batch in own[step * each_step : (step + 1) * each_step]
            for index in micro_batch
        ]
        assert sorted(taken) == [*range(step * batch, min((step + 1) * batch, sequences))]


@given(sequences=st.integers(1, 40), batch=st.integers(1, 12), size=FEW, processes=FEW)
def test_all_processes_have_as_many_micro_batches_and_none_too_large(
    sequences, batch, size, processes
):
    everyone = split(sequences, batch, size, processes)
    assert len({len(own) for own in everyone}) == 1
    assert all(len(micro_batch) <= size for own in everyone for micro_batch in own)
    # The Trainer requires it: all steps but the last have equally many micro-batches.
    last = sequences % batch or batch
    assert len(everyone[0]) == (
        (-(-sequences // batch) - 1) * micro_batches_per_step(batch, size, processes)
        + micro_batches_per_step(last, size, processes)
    )


def test_micro_batches_of_a_step_differ_by_at_most_one_sequence():
    # Seven sequences, at most three at once: not three, three and one.
    assert split_into_micro_batches(7, 7, 3, 1, 0) == [[0, 1, 2], [3, 4], [5, 6]]
    assert split(8, 8, 4, 2) == [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]


def test_a_process_without_a_sequence_gets_a_micro_batch_without_targets():
    sequences = SequenceDataset(pack([list(range(1, 10))], 3), np.arange(3))
    batches = split(3, 3, 1, 2)[1]
    assert batches == [[1], []]
    full, empty = DataLoader(sequences, batch_sampler=batches, collate_fn=collate)
    assert full["input_ids"].tolist() == [[4, 5, 6]]
    assert (empty["labels"] == IGNORED).all() and empty["labels"].shape == (1, 2)


@pytest.mark.parametrize(
    ("batch", "length", "device", "expected"),
    [
        (8, 512, "cuda", 8),  # 8,192 tokens would hold 16
        (8, 2048, "cuda", 4),
        (8, 2048, "cpu", 1),  # at least one, however long
        (6, 100, "cpu", 5),  # the other micro-batch has one
    ],
)
def test_a_micro_batch_holds_as_many_sequences_as_its_tokens_allow(batch, length, device, expected):
    assert micro_batch_size(batch, length, device) == expected
