"""Whole cells with new tokens that a model without these teaches, chunk by chunk."""

import json

import pytest
import torch
from safetensors.torch import load_file

from lexigraft.initialization.registry import initializer
from lexigraft.training.train import train_cell
from lexigraft.training.training_log import TrainingLog
from lexigraft.vocabulary.expand import expand_tokenizer
from tests.training.interruption import EAGER, interrupted_at
from tests.training.trained import folder_of, give_vocabulary

PHASE = {
    "trainable": ["embeddings", "head", {"layers": [0, -1]}], "length": 16, "objective": "alm",
}  # fmt: skip


@pytest.fixture
def matched(training_setup, without_bos, telugu, tiny_llama):
    """`matched(phases, tied=False, **settings)`: a job of 30 new tokens with another teacher."""

    def job(phases=(PHASE,), tied=False, **settings):
        place = training_setup(tied=tied, sentences=6)
        large = place.results / "source" / "large"
        teacher = tiny_llama(320, tied=False, seed=5)
        teacher.lm_head.weight.data *= 20  # sure of itself: it finds these texts unlikely
        teacher.save_pretrained(large)
        without_bos.save_pretrained(large)
        (large / "source.json").write_text(json.dumps({"kind": "folder", "path": "."}))
        target = expand_tokenizer(without_bos, telugu, new_tokens=30)
        fitted = initializer("mean").fit(without_bos, target, n_source=320)
        shared = {
            "batch_sequences": 2, "epochs": 1, "learning_rate": 1e-2,
            "gradient_checkpointing": False, "curve": {"sentences": 2, "points": 1},
        }  # fmt: skip
        made = place.job({**shared, "phases": [*phases], **settings})
        give_vocabulary(made, place.results, target, fitted)
        made["inputs"]["teacher"] = str(large)
        return made

    return job


def trained(job, policy=None):
    """The cell's tensors and the steps of its log."""
    train_cell(job, policy)
    folder = folder_of(job)
    return load_file(folder / "changed.safetensors"), TrainingLog(folder / "log.jsonl").lines(
        "step"
    )


def test_an_interrupted_run_is_bit_identical_to_an_uninterrupted_one(matched):
    """Of documents that are separate, of which the teacher's are, too."""
    mixed = {**PHASE, "alm": {"next_weight": 0.5}, "share": 0.5}
    job = matched([{**PHASE, "share": 0.5}, mixed], packing="apart")
    whole, log = trained(job)
    stop = 1 + min(line["step"] for line in log if line["phase"] == 1)
    with interrupted_at(stop):
        train_cell(job, EAGER)
    again, _ = trained(job, EAGER)
    assert json.loads((folder_of(job) / "card.json").read_text())["resumed_from_step"]
    assert whole.keys() == again.keys()
    assert all(torch.equal(tensor, again[name]) for name, tensor in whole.items())


def test_new_rows_approach_the_influence_of_their_pieces_and_no_other_row_changes(matched):
    """A tied model, as attention alone trains no head of its own."""
    phase = {"trainable": ["new-rows"], "length": 16, "objective": "aim"}
    changed, steps = trained(matched([phase], epochs=6, tied=True, epsilon=1e-12))
    assert steps[-1]["loss"] < 0.8 * steps[0]["loss"]
    assert set(changed) == {"model.embed_tokens.weight"}
