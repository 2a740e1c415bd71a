"""Multiple choice as a task of a study: what its record and its predictions hold."""

import json
from pathlib import Path
from runpy import run_path

import pytest

from lexigraft.errors import UserError
from lexigraft.evaluation.evaluate import evaluate_cell
from lexigraft.evaluation.task_kinds import task_kind
from lexigraft.job import carry_out
from tests.conftest import REPOSITORY


@pytest.fixture
def choose(answering, prepared, make_job):
    """`choose(tests, **settings)`: the measurement, and what was written."""

    def run(tests, **settings):
        job = make_job("multiple_choice", **settings)
        job["inputs"]["benchmarks"] = {
            test: str(prepared(name, folder)) for test, (name, folder) in tests.items()
        }
        folder = Path(job["outputs"]["folder"])
        folder.mkdir(parents=True, exist_ok=True)
        return task_kind("multiple_choice").evaluate(*answering, job), folder

    return run


def rows_of(file):
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


XNLI = {"german": ("xnli_de", "xnli"), "english": ("xnli_en", "xnli")}
XCOPA = {"swahili": ("xcopa_sw", "xcopa"), "estonian": ("xcopa_et", "xcopa")}


def test_accuracy_is_of_the_cells_language_and_english_has_its_own(choose):
    measured, folder = choose(XNLI)
    every = rows_of(folder / "predictions.jsonl")
    own, english = ([row for row in every if row["test"] == name] for name in XNLI)
    assert (len(own), len(english)) == (4, 2)
    for rows, metric in ((own, "accuracy"), (english, "english_accuracy")):
        assert measured.metrics[metric] == sum(row["accuracy"] for row in rows) / len(rows)
        for row in rows:
            assert row["accuracy"] == (row["output"] == row["reference"])
    assert own[0]["id"] == "german-xnli_de-0"
    assert own[0]["reference"] == " Es regnet, richtig? Ja, Es ist nass"
    assert set(measured.metrics) == {"accuracy", "english_accuracy"}
    # Nothing to resume from is left.
    assert {file.name for file in folder.iterdir()} == {"predictions.jsonl"}


def test_each_language_of_a_group_counts_the_same(choose):
    measured, folder = choose(XCOPA, shots=1)
    rows = rows_of(folder / "predictions.jsonl")
    means = {
        name: sum(row["accuracy"] for row in rows if row["test"] == name) / 2 for name in XCOPA
    }
    assert measured.metrics["accuracy"] == sum(means.values()) / 2
    assert {
        f"accuracy_{name}": mean for name, mean in means.items()
    }.items() <= measured.metrics.items()
    # The example before it is of the validation set.
    assert all(row["prompt"].startswith("Alifika") for row in rows)


def test_the_metric_of_a_task_is_its_accuracy_and_the_others_keep_their_names(choose):
    tests = {"german": ("arc_de", "okapi/arc_multilingual")}
    plain, _ = choose(tests)
    relative, folder = choose(tests, metric="acc_norm")
    assert plain.metrics["acc_norm"] == relative.metrics["accuracy"]
    assert plain.metrics["accuracy"] == relative.metrics["acc"]
    assert set(relative.metrics) == {"accuracy", "acc"}
    assert all(row["accuracy"] == row["acc_norm"] for row in rows_of(folder / "predictions.jsonl"))
    assert relative.details["signature"].startswith("acc_norm of lm-evaluation-harness 0.4.")


def test_a_sample_is_the_same_for_every_cell_of_a_run(choose):
    measured, folder = choose(XNLI, samples=3)
    ids = [row["id"] for row in rows_of(folder / "predictions.jsonl")]
    assert [name.split("-")[0] for name in ids] == ["german"] * 3 + ["english"] * 2
    assert measured.details["tests"]["english"]["scored"] == 2
    choose(XNLI, samples=3, shots=1)
    assert [row["id"] for row in rows_of(folder / "predictions.jsonl")] == ids


def test_a_metric_that_the_task_does_not_have_is_an_error(choose):
    with pytest.raises(UserError, match="metric 'f1' is not one of acc, the metrics"):
        choose(XNLI, metric="f1")


def test_without_data_no_model_is_loaded(make_job, tmp_path):
    """The folder of the cell has a card and no model; the script of the rule finds no data."""
    job, benchmarks = make_job("multiple_choice"), {}
    stage = run_path(str(REPOSITORY / "scripts" / "prepare_benchmark.py"))["stage"]
    for test, name in (("german", "xnli_de"), ("english", "xnli_en")):
        folder = tmp_path / "benchmarks" / name
        folder.mkdir(parents=True)
        settings = {"task": name, "folder": "xnli", "data": str(tmp_path / "nothing")}
        outputs = {"folder": str(folder), "results": str(tmp_path)}
        prepare = {"rule": "prepare_benchmark", "settings": settings, "inputs": {}, "state": "now"}
        carry_out(stage, {**prepare, "outputs": outputs})
        benchmarks[test] = str(folder)
    task = {"settings": {"kind": "multiple_choice"}, "runs": 1, "seed": [0]}
    inputs = {"cell": job["inputs"]["cell"], "read": {"choice": {"benchmarks": benchmarks}}}
    described = {"rule": "evaluate", "cell": {}, "settings": {}, "inputs": inputs}
    outputs = {"folder": str(tmp_path / "evaluation")}
    evaluate_cell({**described, "outputs": outputs, "tasks": {"choice": task}})
    record = json.loads((tmp_path / "evaluation/choice/run-0/record.json").read_text("utf-8"))
    assert record["metrics"] == {} and record["kind"] == "multiple_choice"
    assert record["not_scored"].startswith("facebook/xnli (de) cannot be read: ")
    assert "; facebook/xnli (en) cannot be read: " in record["not_scored"]
