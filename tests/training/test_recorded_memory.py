"""The peaks that docs/gpu.md shows are those of the code as it is, and sources ask accordingly."""

import pytest

from benchmarks.memory import MODELS, peak_of
from lexigraft.training.settings import trains_whole_model
from tests.workflow.conftest import open_study
from workflow.config.registries import load_registries
from workflow.pages import DOCS, Record
from workflow.stages.cells import training_gpus

RECORDED = Record(DOCS / "results" / "memory.json")


@pytest.mark.parametrize(
    ("model", "strategy"), [("xglm-1.7b", "2x2ls-mtp-512"), ("qwen2-7b", "2x2ls-clm-512")]
)
def test_no_peak_has_moved_by_a_twentieth(model, strategy):
    [row] = RECORDED.rows("peaks", model=model, strategy=strategy, passes="full")
    peak = peak_of(model, strategy, row["vocabulary"]) / 2**30
    assert peak == pytest.approx(row["gibibytes"], rel=0.05)


def needed_and_asked(study, source):
    """Of each strategy in the record: whether it trains a whole model; GPUs needed and asked."""
    for row in RECORDED.rows("cards", model=source):
        asked, *_ = training_gpus(study, source, row["strategy"])
        whole = trains_whole_model(study.config["strategies"][row["strategy"]])
        yield whole, row["gpus"], asked


def test_sources_ask_for_as_many_gpus_as_their_trainings_take():
    study = open_study("lowres")  # which changes no source
    for source in load_registries()["sources"].keys() & MODELS.keys():
        for whole in (False, True):
            rows = [row[1:] for row in needed_and_asked(study, source) if row[0] == whole]
            assert {asked for _, asked in rows} == {max(needed for needed, _ in rows)}, source


@pytest.mark.parametrize("name", ["cw2v", "unifyvocab", "vocadt"])
def test_no_study_asks_for_fewer(name):
    study = open_study(name)
    for source in study.config["sources"].keys() & MODELS.keys():
        for _, needed, asked in needed_and_asked(study, source):
            assert asked >= needed, source
