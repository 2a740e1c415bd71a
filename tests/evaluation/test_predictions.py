"""Predictions of generation tasks: which outputs are generated, reused and stored."""

import json
from pathlib import Path

import pytest

from lexigraft.evaluation.evaluate import _evaluate_group, _opening, evaluate_cell, run_jobs

SHARED = {"max_new_tokens": 6, "samples": 3, "batch_size": 1}


@pytest.fixture
def generated(monkeypatch):
    """The prompts that the models of cells were given to continue."""
    from transformers import LlamaForCausalLM

    inner, prompts = LlamaForCausalLM.generate, []

    def counted(self, ids, *arguments, **options):
        prompts.extend(ids.tolist())
        return inner(self, ids, *arguments, **options)

    monkeypatch.setattr(LlamaForCausalLM, "generate", counted)
    return prompts


def runs(job) -> list[list[dict]]:
    """The predictions of each run."""
    folder = Path(job["outputs"]["folder"], "translation")
    files = sorted(folder.glob("run-*/predictions.jsonl"))
    return [[json.loads(line) for line in file.open(encoding="utf-8")] for file in files]


def test_a_prompt_of_several_runs_is_generated_once(cell_job, generated, monkeypatch):
    job = cell_job(translation={"runs": 4, **SHARED})
    evaluate_cell(job)
    shared, n_generated = runs(job), len(generated)
    prompts = {row["prompt"] for run in shared for row in run}
    assert n_generated == len(prompts) == 4  # of 12 rows
    folder = Path(job["outputs"]["folder"], "translation")
    for number, run in enumerate(shared):
        details = json.loads((folder / f"run-{number}" / "record.json").read_text())["details"]
        reused = sum(row.get("reused", False) for row in run)
        assert details["reused_outputs"] == reused
        assert details["unfinished_outputs"] == sum(not row["finished"] for row in run)
        earlier = {row["prompt"] for previous in shared[:number] for row in previous}
        assert reused == sum(row["prompt"] in earlier for row in run)
    apart = cell_job(translation={"runs": 4, **SHARED})
    apart["outputs"] = {"folder": job["outputs"]["folder"] + "-apart"}
    with monkeypatch.context() as patch:
        patch.setattr("lexigraft.evaluation.predictions.read_jsonl", lambda *_: [])
        evaluate_cell(apart)
    assert len(generated) - n_generated == 12
    all_generated = runs(apart)
    for run in [*shared, *all_generated]:
        for row in run:
            row.pop("reused", None)
    assert all_generated == shared


def test_runs_that_are_not_redrawn_generate_the_first_sample_anew(cell_job, generated):
    job = cell_job(translation={"runs": 3, **SHARED, "redraw": False})
    evaluate_cell(job)
    first, *others = runs(job)
    assert others == [first, first]  # in float32; elsewhere, rounding may make a difference
    assert len(generated) == 3 * 3 and not any("reused" in row for row in first)
    redrawn = cell_job(translation={"runs": 1, **SHARED})
    redrawn["outputs"] = {"folder": job["outputs"]["folder"] + "-redrawn"}
    evaluate_cell(redrawn)
    assert [row["id"] for row in runs(redrawn)[0]] == [row["id"] for row in first]


def test_another_process_reuses_what_complete_runs_generated(cell_job, generated):
    job = cell_job(translation={"runs": 1, **SHARED})
    evaluate_cell(job)
    job["tasks"]["translation"]["runs"] = 3
    evaluate_cell(job)
    assert len(generated) == len({row["prompt"] for run in runs(job) for row in run})


@pytest.mark.parametrize("changed", [{"max_new_tokens": 5}, {"beams": 2}, "version"])
def test_outputs_of_other_settings_are_not_reused(cell_job, generated, changed):
    job = cell_job(translation={"runs": 1, **SHARED, "samples": None})
    evaluate_cell(job)
    before = len(generated)
    job["tasks"]["translation"]["runs"] = 2
    second = json.loads(json.dumps(run_jobs(job)[1]))
    if changed == "version":
        second["versions"] = {"task translation": 2}
    else:
        second["settings"] |= changed
    failures = {}
    _evaluate_group(job, _opening(second["settings"]), [second], failures)
    assert not failures and len(generated) > before
    assert not any(row.get("reused") for row in runs(job)[1])
