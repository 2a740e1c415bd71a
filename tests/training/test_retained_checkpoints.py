"""Checkpoints that stay: the model as it was after that step, whatever was being trained."""

import json

import pytest
import torch

from lexigraft.corpus.lines import corpus_sentences
from lexigraft.errors import UserError
from lexigraft.inference.likelihood import score_texts
from lexigraft.training.checkpointing import retained_steps
from lexigraft.training.store import load_cell
from lexigraft.training.train import train_cell
from lexigraft.training.training_log import TrainingLog
from tests.training.interruption import EAGER, interrupted_at
from tests.training.trained import folder_of

LENGTH = {"length": 32}
LORA = {"trainable": ["embeddings", "head", "lora"], **LENGTH}
LAYERS = {"trainable": ["embeddings", "head", {"layers": [0, -1]}], **LENGTH}
HALVES = [{**LAYERS, "share": 0.5}, {**LORA, "share": 0.5}]
SETTINGS = {
    "batch_sequences": 4,
    "epochs": 1,
    "learning_rate": 1e-2,
    "gradient_checkpointing": False,
    # The curve is scored where checkpoints are taken.
    "checkpoints": 3,
    "curve": {"sentences": 4, "points": 2},
}


@pytest.mark.parametrize(
    ("steps", "checkpoints", "expected"),
    [
        ([10], 5, {2: 1, 4: 2, 6: 3, 8: 4}),
        ([5, 5], 2, {5: 1}),
        ([7], 3, {2: 1, 5: 2}),
        ([4], 4, {1: 1, 2: 2, 3: 3}),
        ([9], 1, {}),
        ([], 5, {}),
    ],
)
def test_retained_checkpoints_are_equally_spaced(steps, checkpoints, expected):
    assert retained_steps(steps, checkpoints) == expected


def test_more_checkpoints_than_steps_are_refused():
    with pytest.raises(
        UserError, match="5 checkpoints exceed the 4 optimizer steps; lower checkpoints"
    ):
        retained_steps([2, 2], 5)


@pytest.mark.parametrize(
    "phases",
    [
        [LAYERS],
        HALVES,
        HALVES[::-1],
        [{**LORA, "objective": "mtp"}],
    ],
)
def test_a_checkpoint_scores_like_the_model_at_its_step(training_setup, phases):
    job = training_setup().job({**SETTINGS, "phases": phases})
    train_cell(job)
    sentences = corpus_sentences(job["inputs"]["corpus"], "heldout", 4)
    logged = TrainingLog(folder_of(job) / "log.jsonl").lines("heldout")
    for number, line in ((1, logged[1]), (2, logged[2])):
        folder = folder_of(job) / f"checkpoint-{number}"
        card = json.loads((folder / "card.json").read_text())
        assert (card["checkpoint"], card["step"]) == (number, line["step"])
        assert card["tokens"] == line["tokens"]
        model, tokenizer = load_cell(folder)
        found = score_texts(model, tokenizer, sentences).bits_per_byte
        assert found == pytest.approx(line["bits_per_byte"], rel=1e-4)
    assert json.loads((folder_of(job) / "card.json").read_text())["checkpoints"] == 3
    assert logged[1]["bits_per_byte"] != pytest.approx(logged[2]["bits_per_byte"], rel=1e-3)


@pytest.mark.fault(
    "kill",
    "training is interrupted between the checkpoints that it retains",
    "it retains the same checkpoints as an uninterrupted run",
)
@pytest.mark.parametrize("before", [3])
def test_an_interrupted_run_keeps_the_same_checkpoints(training_setup, before):
    job = training_setup(sentences=6).job({**SETTINGS, "phases": [LAYERS]})
    train_cell(job)
    names = [f"checkpoint-{number}/changed.safetensors" for number in (1, 2)]
    whole = [(folder_of(job) / name).read_bytes() for name in names]
    with interrupted_at(before):
        train_cell(job, EAGER)
    train_cell(job)
    assert [(folder_of(job) / name).read_bytes() for name in names] == whole


def test_old_checkpoints_of_a_cell_are_deleted(training_setup):
    place = training_setup(sentences=6)
    train_cell(place.job({**SETTINGS, "phases": [LAYERS]}))
    job = place.job({**SETTINGS, "phases": [LAYERS], "checkpoints": 2})
    train_cell(job)
    assert [path.name for path in folder_of(job).glob("checkpoint-*")] == ["checkpoint-1"]


def test_english_is_scored_wherever_the_held_out_text_is(training_setup, english):
    place = training_setup()
    (place.corpus / "english.txt").write_text("\n".join(english[:6]) + "\n")
    job = place.job({**SETTINGS, "phases": [LAYERS]})
    train_cell(job)
    lines = TrainingLog(folder_of(job) / "log.jsonl").lines("heldout")
    model, tokenizer = load_cell(folder_of(job))
    with torch.no_grad():
        after = score_texts(model, tokenizer, english[:4])
    assert lines[-1]["english_bits_per_byte"] == pytest.approx(after.bits_per_byte, rel=1e-4)
    card = json.loads((folder_of(job) / "card.json").read_text())
    assert card["english_before"] == lines[0]["english_bits_per_byte"]
    assert card["english_after"] == lines[-1]["english_bits_per_byte"]
