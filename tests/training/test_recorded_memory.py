"""The peaks that docs/gpu.md shows are those of the code as it is, and sources ask accordingly."""

import pytest

from benchmarks.memory import MODELS, peak_of
from tests.workflow.conftest import open_study
from workflow.config.registries import entries_of, load_registries
from workflow.records import open_record

RECORDED = open_record("memory")


@pytest.mark.parametrize(
    ("model", "strategy"), [("xglm-1.7b", "2x2ls-mtp-512"), ("qwen2-7b", "2x2ls-clm-512")]
)
def test_recorded_peaks_are_within_five_percent_of_the_simulation(model, strategy):
    [row] = RECORDED.rows("peaks", model=model, strategy=strategy, passes="full", offload=False)
    peak = peak_of(model, strategy, row["vocabulary"]) / 2**30
    assert peak == pytest.approx(row["gibibytes"], rel=0.05)


def needed_and_asked(study, source):
    """Of each strategy in the record: whether it trains a whole model; GPUs needed and asked."""
    for row in RECORDED.rows("cards", model=source, offload=False):
        asked, *_ = study.training_gpus(source, row["strategy"])
        whole = study.strategies[row["strategy"]].trains_whole_model
        yield whole, row["gpus"], asked


def test_sources_request_the_gpus_that_their_trainings_need():
    study = open_study("lowres")  # which changes no source
    for source in load_registries()["sources"].keys() & MODELS.keys():
        for whole in (False, True):
            rows = [row[1:] for row in needed_and_asked(study, source) if row[0] == whole]
            assert {asked for _, asked in rows} == {max(needed for needed, _ in rows)}, source


def test_sources_request_the_machine_memory_that_their_jobs_need():
    registries, strategies = load_registries(), entries_of("strategies")
    for source in registries["sources"].keys() & MODELS.keys():
        resources = registries["sources"][source]["resources"]
        if "full_training_mb" not in resources:
            continue
        weights, gpus = resources["billion_parameters"] * 1e3, resources["full_training_gpus"]
        partial = max(
            row["trained"] / 1e6
            for row in RECORDED.rows("cards", model=source, offload=False)
            if not strategies[row["strategy"]].trains_whole_model
        )
        # Megabytes: an export, or a cell's own checkpoint; moments of a checkpoint to resume from.
        needed = 4000 + max(2 * weights + 4 * partial, 8 * partial)
        assert needed <= resources["training_mb"] <= 1.1 * needed, source
        # Each process has the weights, the first one stores them in 16 bits, or both moments.
        needed = 4000 + max(4 * weights + 2 * weights / gpus, 8 * weights / gpus)
        assert needed <= resources["full_training_mb"] <= 1.1 * needed, source


@pytest.mark.parametrize("name", ["cw2v", "unifyvocab", "vocadt"])
def test_no_study_requests_fewer_gpus(name):
    study = open_study(name)
    for source in study.config["sources"].keys() & MODELS.keys():
        for _, needed, asked in needed_and_asked(study, source):
            assert asked >= needed, source
