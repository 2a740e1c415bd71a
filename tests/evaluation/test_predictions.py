import json
from pathlib import Path

import pytest

from lexigraft.evaluation.evaluate import _evaluate_group, _opening, evaluate_cell, run_jobs
from lexigraft.evaluation.predictions import measure_predictions, predict

EXAMPLES = [
    {"id": "a", "source": "one two", "reference": "ένα δύο"},
    {"id": "b", "source": "yes", "reference": "ναι"},
]
PROMPTS = [f"{example['source']} =" for example in EXAMPLES]


@pytest.fixture
def ask(model, byte_tokenizer, make_job):
    """Predict for EXAMPLES; keywords override."""
    job = make_job("translation")

    def ask(**options):
        given = {"max_new_tokens": 30, "batch_size": 2, **options}
        return predict(model, byte_tokenizer(), job, EXAMPLES, PROMPTS, **given), job

    return ask


def test_outputs_end_at_the_strings_that_a_task_names(ask):
    free, _ = ask(stop=[])
    stop = next(letter for letter in free[0]["output"][3:] if letter.isascii())
    cut, _ = ask(stop=[stop])
    for row, whole in zip(cut, free, strict=True):
        assert row["output"] == whole["output"].partition(stop)[0].strip()
    assert cut[0]["finished"]
    assert cut[0]["steps"] < free[0]["steps"]


def test_partial_outputs_are_deleted_when_predictions_are_written(ask, model):
    rows, job = ask()
    folder = Path(job["outputs"]["folder"])
    assert [file.name for file in folder.iterdir()] == ["predictions.partial.jsonl"]
    measure_predictions(rows, model, job, {}, {})
    assert [file.name for file in folder.iterdir()] == ["predictions.jsonl"]
    lines = (folder / "predictions.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == rows


def test_details_count_empty_and_unfinished_outputs(ask, model):
    rows, job = ask(stop=[])
    rows[0] |= {"output": "", "finished": True}
    rows[1] |= {"output": "x", "finished": False}
    assert measure_predictions(rows, model, job, {}, {}).details == {
        "empty_outputs": 1,
        "unfinished_outputs": 1,
        "reused_outputs": 0,
        "precision": "float32",
        "device": "cpu",
        "engine": "transformers",
    }


SHARED = {"max_new_tokens": 6, "samples": 3, "batch_size": 1}


@pytest.fixture
def generated(monkeypatch):
    """How many prompts the models of cells were given to continue."""
    from transformers import LlamaForCausalLM

    inner, prompts = LlamaForCausalLM.generate, []

    def counted(self, ids, *arguments, **given):
        prompts.extend(ids.tolist())
        return inner(self, ids, *arguments, **given)

    monkeypatch.setattr(LlamaForCausalLM, "generate", counted)
    return prompts


def runs(job) -> list[list[dict]]:
    """The predictions of each run."""
    folder = Path(job["outputs"]["folder"], "translation")
    files = sorted(folder.glob("run-*/predictions.jsonl"))
    return [[json.loads(line) for line in file.open(encoding="utf-8")] for file in files]


def said(run: list[dict]) -> list[dict]:
    """What a run's rows say but for who generated them."""
    return [{key: value for key, value in row.items() if key != "reused"} for row in run]


def test_a_prompt_of_several_runs_is_generated_once(cell_job, generated, monkeypatch):
    job = cell_job(translation={"runs": 4, **SHARED})
    evaluate_cell(job)
    found, asked = runs(job), len(generated)
    prompts = {row["prompt"] for run in found for row in run}
    assert asked == len(prompts) == 4  # of 12 rows
    for number, run in enumerate(found):
        record = json.loads(
            Path(
                job["outputs"]["folder"], "translation", f"run-{number}", "record.json"
            ).read_text()
        )
        reused = sum(row.get("reused", False) for row in run)
        assert record["details"]["reused_outputs"] == reused
        earlier = {row["prompt"] for before in found[:number] for row in before}
        assert reused == sum(row["prompt"] in earlier for row in run)
    alone = cell_job(translation={"runs": 4, **SHARED})
    alone["outputs"] = {"folder": job["outputs"]["folder"] + "-alone"}
    with monkeypatch.context() as patch:
        patch.setattr("lexigraft.evaluation.predictions._earlier_outputs", lambda *_: iter(()))
        evaluate_cell(alone)
    assert len(generated) - asked == 12
    assert [said(run) for run in runs(alone)] == [said(run) for run in found]


def test_another_process_reuses_what_completed_and_interrupted_runs_generated(cell_job, generated):
    job = cell_job(translation={"runs": 1, **SHARED})
    evaluate_cell(job)
    job["tasks"]["translation"]["runs"] = 3
    evaluate_cell(job)
    assert len(generated) == len({row["prompt"] for run in runs(job) for row in run})
    whole = runs(job)
    # As a kill leaves it: the first run was under way again, its outputs not yet in a record.
    first = Path(job["outputs"]["folder"], "translation", "run-0")
    kept = [{"digest": "x"}]
    for row in whole[0]:
        text = {"text": row["output"], "tokens": [5] * row["output_tokens"]}
        kept.append(
            {"id": row["generation"], **text, "steps": row["steps"], "finished": row["finished"]}
        )
    (first / "predictions.jsonl").unlink()
    (first / "predictions.partial.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in kept) + '{"id'
    )
    (first.parent / "run-1" / ".completed.json").unlink()
    one = run_jobs(job)[1]
    before = len(generated)
    _evaluate_group(job, _opening(one["settings"]), [one], {})
    assert len(generated) - before == sum(not row.get("reused") for row in whole[1])
    assert [row["output"] for row in runs(job)[0]] == [row["output"] for row in whole[1]]


@pytest.mark.parametrize("changed", [{"max_new_tokens": 5}, {"beams": 2}, "version"])
def test_outputs_of_other_settings_are_not_reused(cell_job, generated, changed):
    job = cell_job(translation={"runs": 1, **SHARED, "samples": None})
    evaluate_cell(job)
    before = len(generated)
    task = job["tasks"]["translation"]
    task["runs"] = 2
    other = json.loads(json.dumps(run_jobs(job)[1]))
    if changed == "version":
        other["versions"] = {"task translation": 2}
    else:
        other["settings"] |= changed
    failures = {}
    _evaluate_group(job, _opening(other["settings"]), [other], failures)
    assert not failures and len(generated) > before
    assert not any(row.get("reused") for row in runs(job)[1])


def test_a_prompt_that_occurs_twice_in_a_run_is_generated_once(ask, model, monkeypatch):
    inner, sizes = model.generate, []
    monkeypatch.setattr(
        model, "generate", lambda ids, **given: sizes.append(len(ids)) or inner(ids, **given)
    )
    monkeypatch.setattr("tests.evaluation.test_predictions.PROMPTS", [PROMPTS[0]] * 2)
    rows, _ = ask()
    assert sizes == [1]
    assert rows[0]["output"] == rows[1]["output"]
    assert [row.get("reused", False) for row in rows] == [False, True]
