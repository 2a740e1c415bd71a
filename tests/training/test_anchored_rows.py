"""New rows that are held where their recipe put them."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from lexigraft.initialization.graft import graft
from lexigraft.initialization.registry import initializer
from lexigraft.initialization.storage import save_initialization
from lexigraft.source.model import load_model
from lexigraft.training.new_rows import AnchoredRows, attach_new_rows, copy_new_rows
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.train import train_cell
from lexigraft.training.training_log import TrainingLog
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.tokenizer_files import save_tokenizer
from tests.training.interruption import EAGER, interrupted_at

IDS = [40, 41, 45]


def anchored(model, weight=0.5):
    return AnchoredRows(CausalModeling(), IDS, copy_new_rows(model, IDS), weight)


@pytest.mark.parametrize(("tied", "matrices"), [(True, 1), (False, 2)])
def test_the_penalty_is_the_mean_squared_distance_of_new_rows(tiny_llama, tied, matrices):
    model = tiny_llama(50, tied=tied)
    objective = anchored(model)
    assert objective.loss_names == ("lm_loss", "anchor_loss")
    assert objective.penalty(model) == 0
    both = {model.model.embed_tokens.weight, model.lm_head.weight}
    with torch.no_grad():
        for weight in both:
            weight[40] += 1  # a squared distance of 32, of one row in three
            weight[7] += 1  # no new row
    assert objective.penalty(model).item() == pytest.approx(matrices * 0.5 * 32 / 3)
    objective.penalty(model).backward()
    for weight in both:
        assert weight.grad[40].tolist() == pytest.approx([0.5 * 2 / 3] * 32)
        assert not weight.grad[[7, 41, 45]].any()


def test_rows_that_are_not_trained_have_no_part_in_it(tiny_llama):
    model = tiny_llama(50, tied=False)
    objective = anchored(model)
    model.lm_head.weight.requires_grad_(False)
    with torch.no_grad():
        model.lm_head.weight[40] += 1
    assert objective.penalty(model) == 0


def test_rows_that_are_parameters_of_their_own_are_held_too(tiny_llama):
    model = tiny_llama(50, tied=False).requires_grad_(False)
    objective = anchored(model)
    attach_new_rows(model, IDS)
    with torch.no_grad():
        model.lm_head.new_rows[1] += 1
    assert objective.penalty(model).item() == pytest.approx(0.5 * 32 / 3)


@pytest.fixture
def grafted(training_setup, without_bos, telugu):
    """A job with 20 new tokens, held in its second phase, and the model that it starts from."""
    place = training_setup(tied=False, sentences=6)
    target = expand_tokenizer(without_bos, telugu, new_tokens=20)
    fitted = initializer("mean").fit(without_bos, target, n_source=320)
    folders = [place.results / stage / "tiny" / "te" / "new" for stage in ("vocabulary", "init")]
    save_tokenizer(target, folders[0])
    save_initialization(fitted, folders[1])

    phase = {"trainable": ["new-rows"], "length": 16, "share": 0.5}
    job = place.job(
        {
            "phases": [phase, {**phase, "anchor": 10.0}], "batch_sequences": 2, "epochs": 1,
            "learning_rate": 1e-2, "gradient_checkpointing": False,
            "curve": {"sentences": 2, "points": 0},
        }
    )  # fmt: skip
    job["inputs"] |= {"tokenizer": str(folders[0]), "initialization": str(folders[1])}
    return job, graft(load_model(place.source, torch.float32), target, fitted)


def rows_of(job, policy=None):
    train_cell(job, policy)
    folder = Path(job["outputs"]["folder"])
    return load_file(folder / "changed.safetensors"), TrainingLog(folder / "log.jsonl").lines(
        "step"
    )


def test_a_resumed_run_holds_rows_at_the_start_of_the_cell_not_of_its_phase(grafted):
    job, start = grafted
    whole, log = rows_of(job)
    card = json.loads(Path(job["outputs"]["folder"], "card.json").read_text())
    assert card["trained_parameters"] == 2 * 20 * 32  # the same rows in both phases
    first, second = (
        [line for line in log if line["phase"] == number and "anchor_loss" in line]
        for number in (0, 1)
    )
    assert not first and second[0]["anchor_loss"] > 0
    for line in second:
        assert line["loss"] == pytest.approx(line["lm_loss"] + line["anchor_loss"], rel=1e-5)
    for name, before in (
        ("model.embed_tokens", start.model.embed_tokens),
        ("lm_head", start.lm_head),
    ):
        after = whole[f"{name}.weight"]
        assert torch.equal(after[:300], before.weight[:300])
        assert not torch.equal(after[300:], before.weight[300:])
    with interrupted_at(second[0]["step"] + 1):
        train_cell(job, EAGER)
    again, lines = rows_of(job, EAGER)
    assert [line["loss"] for line in lines] == [line["loss"] for line in log]
    assert all(torch.equal(tensor, again[name]) for name, tensor in whole.items())
