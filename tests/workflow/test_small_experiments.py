"""The smallest real experiments on findings that miniatures cannot decide: parts of the grids."""

import pytest

from lexigraft.report.frame import CELL
from lexigraft.report.published import read_published
from tests.workflow.conftest import open_study
from workflow.config.registries import PUBLISHED, ROOT


def without_language(cell):
    return tuple(getattr(cell, axis) for axis in CELL if axis != "language")


@pytest.mark.parametrize(("small", "grid"), [("salt-german", "salt"), ("cw2v-untrained", "cw2v")])
def test_cells_are_a_part_of_the_grid(small, grid):
    """But for SALT's strategy: joined, a ninth of the text would make 45 steps."""
    part, whole = ({without_language(cell) for cell in open_study(name).cells}
                   for name in (small, grid))  # fmt: skip
    assert {tuple(str(name).removesuffix("-single") for name in cell) for cell in part} < whole


def test_salt_reads_a_ninth_of_the_text_one_sentence_at_a_time():
    config = open_study("salt-german").config
    languages, strategy = config["languages"], config["strategies"]["full-1024-single"]
    assert strategy == config["strategies"]["full-1024"] | {"packing": "single"}
    assert 800_000 // strategy["batch_sequences"] == 1562
    (own,) = {cell.language for cell in open_study("salt-german").cells}
    assert languages[own] == languages["de-wiki"] | {"train_sentences": 7_200_000 // 9}


def test_the_grid_of_cw2v_continues_from_its_untrained_cells():
    small, grid = open_study("cw2v-untrained"), open_study("cw2v")
    assert set(small.cells) < set(grid.cells)
    assert small.config["results"] == grid.config["results"]


def test_scores_of_untrained_cells_are_compared_with_those_of_the_paper():
    study = open_study("cw2v-untrained")
    cells = {tuple(getattr(cell, axis) for axis in CELL) for cell in study.cells}
    compared = [
        score
        for number in read_published([ROOT / PUBLISHED / "cw2v.csv"])
        for score in number.scores
        if score.task in study.config["run_tasks"]
        and tuple(score.cell.get(axis) for axis in CELL) in cells
    ]
    expected = {cell.initializer for cell in study.cells} - {"none", "cw2v-2m", "mean"}
    assert {score.cell["initializer"] for score in compared} == expected


def test_first_losses_are_of_one_step_and_vectors_of_as_much_text():
    study = open_study("unifyvocab-first-loss")
    strategy = study.config["strategies"]["first-loss"]
    (phase,) = strategy["phases"]
    assert phase["tokens"] == strategy["batch_sequences"] * phase["length"]
    auxiliaries = study.config["auxiliary"]
    assert [auxiliaries[name]["text"]["tokens"] for name in ("glove-1b", "fasttext-50m")] == [
        50_000_000,
        50_000_000,
    ]
