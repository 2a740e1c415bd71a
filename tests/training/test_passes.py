"""An optimizer step is split into passes that fit: each sequence once, in any process."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lexigraft.errors import UserError
from lexigraft.inference.chunked_logits import IGNORED
from lexigraft.training.data import collate
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.phase import micro_batch_tokens, split_step
from lexigraft.training.train import train_cell
from tests.training.test_train import LAYERS, SHARED, TWO_STAGE, folder_of, log_of, tensors_of

LENGTHS = st.lists(st.integers(2, 40), min_size=1, max_size=30)


@given(lengths=LENGTHS, tokens=st.integers(1, 200), processes=st.integers(1, 7))
def test_every_sequence_is_in_one_pass_of_one_process(lengths, tokens, processes):
    everyone = split_step(lengths, tokens, processes)
    assert len(everyone) == processes
    assert len({len(passes) for passes in everyone}) == 1
    parts = [part for passes in everyone for part in passes]
    assert sorted(place for part in parts for place in part) == [*range(len(lengths))]
    assert all(len(part) * max((lengths[at] for at in part), default=0) <= tokens
               for part in parts if len(part) > 1)  # fmt: skip
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@given(lengths=LENGTHS, tokens=st.integers(40, 200), processes=st.integers(1, 7))
def test_there_are_no_more_passes_than_needed(lengths, tokens, processes):
    [own, *_] = split_step(lengths, tokens, processes)
    if len(own) > 1:
        fewer = np.array_split(np.arange(len(lengths)), (len(own) - 1) * processes)
        assert any(len(part) > 1 and len(part) * max(lengths[at] for at in part) > tokens
                   for part in fewer)  # fmt: skip


def test_short_sequences_fill_a_pass_by_their_tokens():
    assert split_step([80] * 16, 4096) == [[[*range(16)]]]
    assert [len(part) for part in split_step([512] * 16, 4096)[0]] == [8, 8]
    # Seven sequences, at most three at once: not three, three and one.
    assert split_step([10] * 7, 30) == [[[0, 1, 2], [3, 4], [5, 6]]]


def test_a_process_without_a_sequence_has_a_pass_without_targets():
    one, other = split_step([3, 3, 3], 3, 2)
    assert (one, other) == ([[0], [2]], [[1], []])
    empty = collate([])
    assert (empty["labels"] == IGNORED).all() and empty["labels"].shape == (1, 2)


def test_the_environment_overrides_the_hardware(monkeypatch):
    assert micro_batch_tokens("cuda") > micro_batch_tokens("cpu")
    monkeypatch.setenv("LEXIGRAFT_PASS_TOKENS", "77")
    assert micro_batch_tokens("cuda") == micro_batch_tokens("cpu") == 77


@pytest.mark.parametrize("given", ["0", "-1", "many", "1.5"])
def test_an_environment_that_makes_no_sense_is_refused(given, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_PASS_TOKENS", given)
    with pytest.raises(UserError, match=f"^{'LEXIGRAFT_PASS_TOKENS'} .*: "):
        micro_batch_tokens("cpu")


@pytest.fixture
def limited(monkeypatch):
    """`limited(tokens)`: passes of more tokens than these run out of memory, half way through."""

    def build(tokens):
        losses = CausalModeling.losses

        def computed(self, model, inputs, weights=None):
            found = losses(self, model, dict(inputs), weights)
            if inputs["input_ids"].numel() > tokens:
                found.sum().backward()  # what was computed by then must not count
                torch.rand(3)
                raise torch.OutOfMemoryError("CUDA out of memory")
            return found

        monkeypatch.setattr(CausalModeling, "losses", computed)

    return build


@pytest.mark.fault(
    "machine",
    "GPU memory runs out in a training step",
    "it is repeated with micro-batches of half the size, bit-identical to starting with that size",
)
@pytest.mark.parametrize("phases", [[LAYERS], TWO_STAGE], ids=["layers", "two stages"])
def test_a_step_that_does_not_fit_ends_like_one_that_did(
    training_setup, phases, limited, monkeypatch, caplog
):
    setup, found = training_setup(), []
    for name in ("small", "halved"):
        if name == "small":
            monkeypatch.setenv("LEXIGRAFT_PASS_TOKENS", "32")
        else:
            monkeypatch.setenv("LEXIGRAFT_PASS_TOKENS", "128")
            limited(32)
        job = setup.job({**SHARED, "phases": phases}, strategy=name)
        job["seed"] = ["study", "training", "same"]
        train_cell(job)
        steps = [(line["loss"], line["tokens"]) for line in log_of(folder_of(job), "step")]
        found.append((tensors_of(folder_of(job)), steps))
    (small, steps), (halved, others) = found
    assert steps == others and small.keys() == halved.keys()
    assert all(torch.equal(small[key], halved[key]) for key in small)
    said = [record.message for record in caplog.records if "does not fit" in record.message]
    assert [message.split()[-2] for message in said] == len(phases) * ["64", "32"]


def test_a_sequence_that_does_not_fit_alone_is_an_error(training_setup, limited):
    limited(16)
    with pytest.raises(torch.OutOfMemoryError):
        train_cell(training_setup().job({**SHARED, "phases": [LAYERS]}))
