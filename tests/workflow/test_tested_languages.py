"""Which texts a task tests, on which cells and checkpoints of them: from the config alone."""

from copy import deepcopy

import pytest

from lexigraft.report.inputs import report_inputs
from tests.workflow.plan import Plan

AXES = {
    "source": "tiny", "language": "greek", "vocabulary": "expand-50", "initializer": "align",
    "strategy": "short", "seed": "0",
}  # fmt: skip


@pytest.fixture
def config(miniature):
    """With checkpoints, Telugu's translation as a task of its own, and Greek without any."""
    config = deepcopy(miniature)
    config["strategies"]["short"]["checkpoints"] = 3
    config["tasks"]["translation-te"] = {
        **config["tasks"]["translation-short"], "language": "telugu",
    }  # fmt: skip
    config["run_tasks"] = {
        "perplexity": {"checkpoints": True},
        "translation-te": {"languages": ["greek"], "runs": 2},
    }
    return config


@pytest.fixture
def study(config, registries):
    return Plan(config)


def read_by_report(study, kind):
    """Records of a kind that the report reads."""
    job = study.described("build_report", {})
    return report_inputs(study.config, job["folders"], job["searched"])[kind]


def test_a_task_reads_the_texts_of_the_language_that_it_names(study):
    job = study.described("evaluate", AXES)
    assert job["inputs"]["cell"].startswith("results/training/tiny/greek/")
    task, read = job["tasks"]["translation-te"], job["inputs"]["read"]
    assert read["translation-te"]["corpus"] == "results/corpus/telugu"
    assert task["language"] == "te"
    # The same examples as of Telugu's own cells; and no setting that the task does not know.
    assert task["seed"][2] == "telugu" and "language" not in task["settings"]
    assert read["perplexity"]["corpus"] == "results/corpus/greek"
    corpora = {f"results/corpus/{language}/card.json" for language in ("telugu", "greek")}
    assert corpora <= {*study.inputs("evaluate", AXES)}


def test_a_task_may_name_a_text_for_each_language(config, registries):
    config["tasks"]["translation-te"]["language"] = {"greek": "telugu", "telugu": "greek"}
    config["run_tasks"]["translation-te"]["languages"] = ["greek"]
    study = Plan(config)
    read = study.described("evaluate", AXES)["inputs"]["read"]
    assert read["translation-te"]["corpus"] == "results/corpus/telugu"
    assert read["perplexity"]["corpus"] == "results/corpus/greek"


def test_a_task_runs_only_on_cells_of_its_languages(study):
    for job in study.jobs().values():
        if job.rule == "evaluate":
            tasks = study.described("evaluate", job.wildcards)["tasks"]
            assert ("translation-te" in tasks) == (job.wildcards["language"] == "greek")
    records = [record for record in read_by_report(study, "records") if "translation-te" in record]
    assert records == [
        f"results/evaluation/tiny/greek/expand-50/align/short/seed-0/translation-te/run-{run}"
        "/record.json" for run in (0, 1)
    ]  # fmt: skip


def test_checkpoints_are_evaluated_by_tasks_that_select_them(study):
    jobs = [job for job in study.jobs().values() if job.rule == "evaluate_checkpoint"]
    # Three trained cells, and of each the two checkpoints before the last.
    assert len(jobs) == 3 * 2
    for job in jobs:
        assert list(job.description["tasks"]) == ["perplexity"]
    assert {job.card for job in jobs} <= {*study.inputs("build_report", {})}
    records = [f"{job.folder}/perplexity/run-0/record.json" for job in jobs]
    assert sorted(read_by_report(study, "checkpoints")) == sorted(records)


def test_a_checkpoint_is_evaluated_as_its_cell_is(study):
    cell = study.described("evaluate", AXES)
    found = study.described("evaluate_checkpoint", {**AXES, "checkpoint": "2"})
    assert found["inputs"]["cell"] == cell["inputs"]["cell"] + "/checkpoint-2"
    assert found["tasks"] == {"perplexity": cell["tasks"]["perplexity"]}
    assert found["inputs"]["read"] == {"perplexity": cell["inputs"]["read"]["perplexity"]}
    assert found["outputs"]["folder"] == cell["outputs"]["folder"] + "/checkpoint-2"
    assert found["checkpoint"] == 2
