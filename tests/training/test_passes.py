"""Processes deal the sequences of a step among them: each one once, whoever takes it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lexigraft.inference.chunked_logits import IGNORED
from lexigraft.training.data import Sequences, pack
from lexigraft.training.passes import deal, loader, rounds

FEW = st.integers(1, 7)


def dealt(sequences, batch, per_pass, processes):
    return [deal(sequences, batch, per_pass, processes, process) for process in range(processes)]


@given(sequences=st.integers(1, 40), batch=st.integers(1, 12), per_pass=FEW, processes=FEW)
def test_every_step_is_the_same_sequences_for_any_number_of_processes(
    sequences, batch, per_pass, processes
):
    everyone = dealt(sequences, batch, per_pass, processes)
    each_step = rounds(batch, per_pass, processes)
    steps = -(-sequences // batch)
    for step in range(steps):
        taken = [
            index
            for own in everyone
            for passed in own[step * each_step : (step + 1) * each_step]
            for index in passed
        ]
        assert sorted(taken) == [*range(step * batch, min((step + 1) * batch, sequences))]


@given(sequences=st.integers(1, 40), batch=st.integers(1, 12), per_pass=FEW, processes=FEW)
def test_all_processes_have_as_many_passes_and_none_too_large(
    sequences, batch, per_pass, processes
):
    everyone = dealt(sequences, batch, per_pass, processes)
    assert len({len(own) for own in everyone}) == 1
    assert all(len(passed) <= per_pass for own in everyone for passed in own)
    # The Trainer counts on it: all steps but the last have as many passes.
    last = sequences % batch or batch
    assert len(everyone[0]) == (
        (-(-sequences // batch) - 1) * rounds(batch, per_pass, processes)
        + rounds(last, per_pass, processes)
    )


def test_passes_of_a_step_are_as_equal_as_can_be():
    # Seven sequences, at most three at once: not three, three and one.
    assert deal(7, 7, 3, 1, 0) == [[0, 1, 2], [3, 4], [5, 6]]
    assert dealt(8, 8, 4, 2) == [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]


def test_a_process_without_a_sequence_reads_something_of_which_nothing_counts():
    sequences = Sequences(pack([list(range(1, 10))], 3), np.arange(3))
    passes = dealt(3, 3, 1, 2)[1]
    assert passes == [[1], []]
    full, empty = loader(sequences, passes, pin_memory=False)
    assert full["input_ids"].tolist() == [[4, 5, 6]]
    assert (empty["labels"] == IGNORED).all() and empty["labels"].shape == (1, 2)
