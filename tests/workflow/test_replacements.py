"""Before finished cells are replaced a run says so, with what they took, and keeps them."""

import json
import os
from pathlib import Path

import pytest

from lexigraft.artifacts.completion import keep_replaced
from lexigraft.training.store import load_cell
from tests.workflow.test_status import finish, opened
from workflow.config.registries import load_registries
from workflow.status.replacements import notice, replacements

CELL = "training/tiny/telugu/expand-50/multivariate/short/seed-0"


@pytest.fixture
def finished(miniature, tmp_path):
    """A study all of whose jobs are complete: training took two hours on one GPU, others one."""
    study = opened(miniature, tmp_path / "results")
    for number, job in enumerate(study.jobs().values()):
        seconds, gpus = (7200, 1) if job.rule == "train" else (3600, 0)
        finish(study, job, at=1_700_000_000 + number, seconds=seconds, gpus=gpus)
    return study


def every(study):
    """All of its outputs, as if Snakemake believed that nothing is finished."""
    return [job.output for job in study.jobs().values()]


def replaced(study) -> set[str]:
    """Rule and initializer of what is replaced where all jobs are planned."""
    return {
        (one.output.rule, one.output.wildcards["initializer"])
        for one in replacements(study, every(study))
    }


def test_of_an_unchanged_study_nothing_is_said_whatever_snakemake_plans(finished):
    assert notice(finished, every(finished)) == ""
    assert notice(finished, []) == ""


def test_an_option_of_an_initializer_replaces_its_cells_and_says_what_they_took(
    finished, miniature, tmp_path, monkeypatch
):
    registries = load_registries()
    registries["initializers"]["multivariate"]["options"] = {"covariance_scale": 0.5}
    study = opened(miniature, tmp_path / "results", registries)
    rules = ("initialize", "train", "evaluate", "measure_speed")
    assert replaced(study) == {(rule, "multivariate") for rule in rules}
    first, second = notice(study, every(study)).splitlines()
    assert "replaces up to 4 finished jobs, which took 2.0 GPU-hours and 5.0 job-hours" in first
    assert "(initialize: 1, train: 1, evaluate: 1, measure_speed: 1)" in first
    assert f"are moved to {study.results}/replaced" in second
    assert CELL in second
    monkeypatch.setenv("LEXIGRAFT_KEEP_REPLACED", "0")
    assert "are not kept" in notice(study, every(study))
    # What the run does not include is not replaced by it.
    assert notice(study, [output for output in every(study) if "/align/" in output]) == ""


def test_failed_attempts_count_and_those_of_an_earlier_cell_do_not(finished, miniature, tmp_path):
    lines = [("done", 7200), ("failed", 1800), ("done", 3600)]
    text = "".join(
        json.dumps({"ended": ended, "seconds": seconds, "gpus": 2}) + "\n"
        for ended, seconds in lines
    )
    (tmp_path / "results" / CELL / "usage.jsonl").write_text(text)
    registries = load_registries()
    registries["initializers"]["multivariate"]["options"] = {"covariance_scale": 0.5}
    study = opened(miniature, tmp_path / "results", registries)
    (cell,) = [one for one in replacements(study, every(study)) if one.output.rule == "train"]
    assert (cell.job_hours, cell.gpu_hours) == (1.5, 3.0)


def test_a_new_task_replaces_nothing_and_an_edited_one_the_evaluations(
    finished, miniature, tmp_path
):
    more = miniature | {"run_tasks": {**miniature["run_tasks"], "translation": {"runs": 2}}}
    assert replaced(opened(more, tmp_path / "results")) == set()
    tasks = miniature["tasks"] | {
        "translation-short": miniature["tasks"]["translation-short"] | {"samples": 3}
    }
    edited = opened(miniature | {"tasks": tasks}, tmp_path / "results")
    assert {rule for rule, _ in replaced(edited)} == {"evaluate"}


def test_a_text_that_changed_replaces_the_cells_of_its_language(finished, miniature, tmp_path):
    text = tmp_path / "greek.txt"
    text.write_text("Μια πρόταση.\n")
    changed = miniature["languages"]["greek"] | {"text": {"loader": "text", "paths": [str(text)]}}
    languages = miniature["languages"] | {"greek": changed}
    study = opened(miniature | {"languages": languages}, tmp_path / "results")
    found = replacements(study, every(study))
    assert {one.output.wildcards["language"] for one in found} == {"greek"}
    assert {"train", "evaluate"} <= {one.output.rule for one in found}


def retrain(study, cell) -> Path | None:
    """What a job does that begins to train a cell."""
    job = study.described("train", study.output("train", **cell).wildcards)
    return keep_replaced(json.loads(json.dumps(job)))


def test_a_cell_of_other_settings_is_moved_with_links_to_what_it_was_made_from(
    finished, miniature, tmp_path
):
    cell = next(one for one in finished.cells if one.initializer == "multivariate").wildcards
    assert retrain(finished, cell) is None  # the same cell, damaged say
    folder = tmp_path / "results" / CELL
    (folder / "card.json").unlink()  # as Snakemake does
    (folder / "changed.safetensors").write_text("weights")
    strategies = {"short": miniature["strategies"]["short"] | {"learning_rate": 1e-3}}
    study = opened(miniature | {"strategies": strategies}, tmp_path / "results")
    fitted = "initialization/tiny/telugu/expand-50/multivariate/seed-0"
    # Made again: the tokenizer with the same content, at a later time, the initializer with other.
    os.utime(tmp_path / "results/vocabulary/tiny/telugu/expand-50/.completed.json", (2e9, 2e9))
    (tmp_path / "results" / fitted / "card.json").write_text('{"statistic": 2}')
    kept = retrain(study, cell)
    assert kept is not None
    assert (kept / "changed.safetensors").read_text() == "weights"
    assert json.loads((kept / "card.json").read_text())["job"]["cell"]["initializer"] == (
        "multivariate"
    )
    assert kept.relative_to(tmp_path / "results/replaced").parts[1:] == Path(CELL).parts
    assert [path.name for path in folder.iterdir()] == ["usage.jsonl"]
    top = kept.parents[len(Path(CELL).parts) - 1]
    linked = top / "vocabulary/tiny/telugu/expand-50"
    assert linked.samefile(tmp_path / "results/vocabulary/tiny/telugu/expand-50")
    assert not (top / fitted).exists()
    assert retrain(study, cell) is None  # interrupted, it begins again


def test_nothing_is_kept_where_that_is_switched_off(finished, miniature, tmp_path, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_KEEP_REPLACED", "0")
    cell = next(one for one in finished.cells if one.initializer == "multivariate").wildcards
    strategies = {"short": miniature["strategies"]["short"] | {"learning_rate": 1e-3}}
    study = opened(miniature | {"strategies": strategies}, tmp_path / "results")
    assert retrain(study, cell) is None
    assert (tmp_path / "results" / CELL / "card.json").exists()


def test_a_run_says_what_it_replaces_and_keeps_the_cell(checkout):
    """Trained for real: the baseline, which is only scored."""
    checkout.change(
        lambda config: config["strategies"].update(
            scored={"base": "none", "curve": {"sentences": 4}}
        )
    )
    checkout.change(lambda config: config["cells"][0].update(strategies=["scored"]))
    cell = "training/tiny/telugu/source/none/scored/seed-0"
    target = f"results/{cell}/card.json"
    first = checkout.snakemake(target)
    assert first.returncode == 0, first.stderr
    assert "replaces up to" not in first.stderr
    usage = checkout.folder / "results" / cell / "usage.jsonl"
    # A comment, and a Snakemake that starts the job anyway.
    checkout.edit("lexigraft/training/train.py", '"""', '# A comment.\n"""')
    again = checkout.snakemake(target, "--forcerun", "train")
    assert again.returncode == 0, again.stderr
    assert "replaces up to" not in again.stderr
    assert len(usage.read_text().splitlines()) == 1
    assert not (checkout.folder / "results/replaced").exists()
    checkout.change(lambda config: config["strategies"]["scored"].update(curve={"sentences": 6}))
    edited = checkout.snakemake(target)
    assert edited.returncode == 0, edited.stderr
    assert "replaces up to 1 finished jobs, which took 0.0 GPU-hours" in edited.stderr
    (kept,) = (checkout.folder / "results/replaced").glob(f"*/{cell}")
    assert json.loads((kept / "card.json").read_text())["job"]["settings"]["curve"] == {
        **json.loads((usage.parent / "card.json").read_text())["job"]["settings"]["curve"],
        "sentences": 4,
    }
    assert len(usage.read_text().splitlines()) == 2
    load_cell(kept)
