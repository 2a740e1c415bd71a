"""Learned metrics in a study: bad names, and what re-runs once a checkpoint is there."""

import json
import subprocess
import sys
from contextlib import chdir
from copy import deepcopy

import pytest

from lexigraft.report.inputs import report_inputs
from tests.workflow.conftest import Checkout, copy_project, refused
from tests.workflow.plan import Plan
from workflow.config.registries import load_registries

CHECKPOINT = "models/tiny-bleurt"
SCORED = {"metric": "bleurt", "source": "tiny", "language": "telugu"}


@pytest.fixture(scope="module")
def config(miniature) -> dict:
    """One cell and one task, scored by a metric whose checkpoint is not there yet."""
    config = deepcopy(miniature)
    config["cells"] = config["cells"][:1]
    config["run_tasks"] = {"translation": {"learned_metrics": ["bleurt"]}}
    config["metrics"] = {"bleurt": {"base": "bleurt-20", "checkpoint": f"./{CHECKPOINT}"}}
    config["metrics_python"] = "metrics/bin/python"
    return config


@pytest.fixture(scope="module")
def finished(tmp_path_factory, config) -> Checkout:
    """The study with the metric prepared, which failed, and empty files for all other outputs."""
    copy = copy_project(tmp_path_factory.mktemp("finished") / "project")
    copy.config = config
    (copy.folder / "metrics" / "bin").mkdir(parents=True)
    (copy.folder / "metrics" / "bin" / "python").touch()
    with chdir(copy.folder):
        study = Plan(config)
        described = study.job("prepare_metric", {"metric": "bleurt"})
        subprocess.run([sys.executable, "scripts/prepare_metric.py", described], check=True)
    copy.pretend_finished()
    return copy


def test_a_metric_is_scored_once_its_checkpoint_exists(finished):
    card = json.loads((finished.folder / "results/metrics/bleurt/card.json").read_text())
    assert f"metrics.bleurt.checkpoint: {CHECKPOINT} has no config.json" in card["why"]
    # Until then it is not tried again.
    assert finished.planned() == set()
    folder = finished.folder / CHECKPOINT
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "spm.model"):
        (folder / name).touch()
    assert finished.planned() == {
        "Preparing the metric bleurt",
        "Scoring predictions of tiny in telugu with bleurt",
        "report",
    }


def test_records_of_learned_metrics_are_beside_the_run_that_they_score(config):
    study = Plan(config)
    job = study.described("build_report", {})
    (record,) = report_inputs(study.config, job["folders"], job["searched"])["learned"]
    assert record == (
        "results/evaluation/tiny/telugu/source/none/none/seed-0/translation/run-0/"
        "learned/bleurt.json"
    )
    scored = study.described("score_predictions", SCORED)
    assert scored["outputs"]["records"] == "results/evaluation"
    assert scored["cells"] == [["tiny/telugu/source/none/none/seed-0", {"translation": 1}]]


def test_predictions_of_checkpoints_are_scored_like_those_of_their_cell(config):
    changed = deepcopy(config)
    changed["cells"] = [{**config["cells"][0], "vocabularies": ["expand-100"],
                         "initializers": ["mean"], "strategies": ["mine"]}]  # fmt: skip
    changed["strategies"] = {"mine": {"base": "lora-clm-512", "checkpoints": 3}}
    changed["run_tasks"]["translation"]["checkpoints"] = True
    study = Plan(changed)
    (scoring,) = (job for job in study.jobs().values() if job.rule == "score_predictions")
    cell = "tiny/telugu/expand-100/mean/mine/seed-0"
    paths = [cell, f"{cell}/checkpoint-1", f"{cell}/checkpoint-2"]
    assert study.described("score_predictions", SCORED)["cells"] == [
        [path, {"translation": 1}] for path in paths
    ]
    cards = {f"results/evaluation/{path}/card-miniature.json" for path in paths}
    assert cards <= {*scoring.inputs}
    job = study.described("build_report", {})
    read = report_inputs(study.config, job["folders"], job["searched"])
    records = [f"results/evaluation/{path}/translation/run-0/" for path in paths]
    assert read["learned"] == [f"{records[0]}learned/bleurt.json"]
    assert read["checkpoints"] == [
        record + file for record in records[1:] for file in ("record.json", "learned/bleurt.json")
    ]


def test_one_job_scores_the_cells_of_a_source_and_language_before_the_report(config):
    changed = deepcopy(config)
    changed["cells"][0]["seeds"] = [0, 1]
    study = Plan(changed)
    (scoring,) = (job for job in study.jobs().values() if job.rule == "score_predictions")
    assert scoring.wildcards == SCORED
    cells = [f"results/evaluation/tiny/telugu/source/none/none/seed-{seed}" for seed in (0, 1)]
    assert {f"{cell}/card-miniature.json" for cell in cells} <= {*scoring.inputs}
    assert scoring.card in study.inputs("build_report", {})


@pytest.mark.bad_input(
    "config",
    "an unknown learned metric, or one without a valid checkpoint",
    "rejected with a message that names the key and suggests a similar name",
)
def test_the_error_about_an_unknown_metric_suggests_a_similar_name(config):
    changed = deepcopy(config)
    changed["run_tasks"]["translation"]["learned_metrics"] = ["bluert-20"]
    message = refused(changed)
    assert message.startswith("config.run_tasks.translation.learned_metrics: 'bluert-20'")
    assert "did you mean 'bleurt-20'?" in message


def test_a_task_without_predictions_has_no_learned_metrics(config):
    changed = deepcopy(config)
    changed["run_tasks"]["perplexity"] = {"learned_metrics": ["bleurt-20"]}
    assert "task 'perplexity' writes no predictions to score" in refused(changed)


def test_two_metrics_with_one_column_are_an_error(config):
    changed = deepcopy(config)
    changed["metrics"]["mine"] = {**load_registries()["metrics"]["bleurt-20"]}
    changed["run_tasks"]["translation"]["learned_metrics"] = ["bleurt-20", "mine"]
    assert "bleurt-20 and mine would share one column" in refused(changed)


@pytest.mark.bad_input(
    "config",
    "an unknown learned metric, or one without a valid checkpoint",
    "rejected with a message that names the key and suggests a similar name",
)
def test_a_checkpoint_must_be_a_hub_name_or_a_folder(config):
    changed = deepcopy(config)
    changed["metrics"]["bleurt"] = {"base": "bleurt-20", "checkpoint": "a folder"}
    assert refused(changed).startswith("metrics.bleurt.checkpoint: ")
