"""What is computed anew, and what is not: real runs of the miniature study after a change."""

import fcntl
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lexigraft.artifacts.comparison import compare
from tests.conftest import run_command
from tests.workflow.conftest import Checkout, copy_project

ALIGN = "tiny/telugu/expand-50/align/short/seed-0"
BASELINE = "tiny/telugu/source/none/none/seed-0"
# Snakemake knows its pages and figures too, and deletes them whenever its job begins.
REPORT = "report/miniature"


def evaluation(cell: str, *tasks: str) -> set[str]:
    """The folders of the tasks of a cell."""
    return {f"evaluation/{cell}/{task}/run-0" for task in tasks}


def read_times(checkout: Checkout) -> dict[str, object]:
    """How often each job did its work, and when each record was written, by folder."""
    results = checkout.folder / "results"
    jobs = {
        file.parent: len(file.read_text().splitlines()) for file in results.rglob("usage.jsonl")
    }
    records = results.glob("evaluation/**/run-*/record.json")
    written = {file.parent: file.stat().st_mtime_ns for file in records}
    return {str(folder.relative_to(results)): n for folder, n in {**jobs, **written}.items()}


def run_again(checkout: Checkout, *arguments: str) -> set[str]:
    """Run the study; the folders, below `results/`, of which anything was computed."""
    before = read_times(checkout)
    done = checkout.snakemake(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return {folder for folder, n in read_times(checkout).items() if before.get(folder) != n}


@pytest.fixture(scope="module", autouse=True)
def one_precision() -> Iterator[None]:
    """On a CPU some tasks compute in float32 and others do not, each with a model of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEXIGRAFT_PRECISION", "float32")
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory, miniature, texts) -> Checkout:
    """The study with two cells, complete, its texts in a folder of its own."""
    checkout = copy_project(tmp_path_factory.mktemp("finished") / "project")
    shutil.copytree(texts, checkout.folder / "texts")
    baseline, adapted, *_ = miniature["cells"]
    telugu = miniature["languages"]["telugu"] | {
        "text": {"loader": "text", "paths": ["texts/telugu.txt"]},
        "parallel": {"loader": "tsv", "path": "texts/telugu.tsv"},
    }
    checkout.config = miniature | {
        "cells": [baseline, adapted | {"initializers": ["align"]}],
        "languages": {"telugu": telugu},
        "report": {"fonts": None, "items": ["results"]},
    }
    assert f"training/{ALIGN}" in run_again(checkout)
    return checkout


@pytest.fixture
def study(finished, tmp_path) -> Checkout:
    """A copy of the complete study."""
    shutil.copytree(finished.folder, tmp_path / "project")
    return Checkout(tmp_path / "project")


def comment(study: Checkout) -> None:
    study.edit("lexigraft/corpus/tables.py", "import json\n", "# A comment.\nimport json\n")


def raise_version(study: Checkout) -> None:
    """The version of the stage that prepares texts."""
    study.edit(
        "workflow/rules/corpus.smk",
        '"prepare_corpus",\n            version=1',
        '"prepare_corpus",\n            version=2',
    )


def test_a_text_that_is_made_anew_with_the_same_content_trains_and_evaluates_nothing(
    finished, study
):
    raise_version(study)
    assert f"Training {' '.join(ALIGN.split('/')[1:5])} seed 0" in study.planned()
    assert run_again(study) - {REPORT} == {"corpus/telugu"}
    found = compare(finished.folder / "results", study.folder / "results")
    assert [(one.kind, one.place) for one in found.differences] == [
        ("version", "corpus/telugu/card.json")
    ]
    assert study.planned() == set()


def test_another_text_is_trained_on_and_evaluated(finished, study):
    with (study.folder / "texts/telugu.txt").open("a", encoding="utf-8") as file:
        file.write("ఇది కొత్త వాక్యం, ఇంతకు ముందు ఇక్కడ లేదు.\n")
    again = run_again(study)
    assert {"corpus/telugu", f"training/{ALIGN}", REPORT} <= again
    assert evaluation(ALIGN, "perplexity", "translation-short") <= again
    found = compare(finished.folder / "results", study.folder / "results").differences
    numbers = {one.place for one in found if one.kind == "number"}
    records = {f"evaluation/{ALIGN}/perplexity/run-0/record.json"}
    assert numbers >= records | {f"training/{ALIGN}/changed.safetensors"}
    assert not any(one.kind in ("alone", "setting", "version", "seed") for one in found)


def openings(study: Checkout, log: str) -> list[str]:
    """The model folders that a job opened, by its log."""
    text = (study.folder / "results/logs/evaluation" / log).read_text(encoding="utf-8")
    return re.findall(r"loading (\S+) for ", text)


@pytest.mark.parametrize("cell", [ALIGN, BASELINE])
def test_the_model_of_a_cell_is_opened_once_for_all_tasks_and_once_for_its_speed(finished, cell):
    assert openings(finished, f"{cell}.log") == [f"results/training/{cell}"]
    assert openings(finished, f"{cell}/speed.log") == [f"results/training/{cell}"]


def test_a_setting_of_one_task_makes_the_records_of_that_task_anew(study):
    study.change(lambda config: config["tasks"]["translation-short"].update(samples=3))
    jobs = {f"evaluation/{cell}" for cell in (ALIGN, BASELINE)}
    records = {f"evaluation/{cell}/translation-short/run-0" for cell in (ALIGN, BASELINE)}
    assert run_again(study) == jobs | records | {REPORT}


def test_studies_that_share_cells_and_run_other_tasks_compute_nothing_twice(study):
    one = study.config
    longer = {"base": "translation", "samples": 2, "max_new_tokens": 9}
    other = one | {
        "study": "other",
        "run_tasks": {"perplexity": {}, "translation-longer": {}},
        "tasks": one["tasks"] | {"translation-longer": longer},
    }
    study.config = other
    jobs = {f"evaluation/{cell}" for cell in (ALIGN, BASELINE)}
    records = {f"evaluation/{cell}/translation-longer/run-0" for cell in (ALIGN, BASELINE)}
    assert run_again(study) - {"report/other"} == jobs | records
    study.config = one
    assert run_again(study) == set()
    study.config = other
    assert run_again(study) == set()


def wait_until(condition: Callable[[], bool], process: subprocess.Popen) -> None:
    while not condition():
        assert process.poll() is None, "it ended too early"
        time.sleep(0.01)


@pytest.mark.fault(
    "kill",
    "an evaluation is killed with SIGKILL",
    "at most the current run is lost; complete records are unchanged",
)
def test_a_killed_evaluation_loses_the_run_under_way_at_most(study):
    folder = study.folder / "results/evaluation" / ALIGN
    job = json.loads((folder / "job.json").read_text())
    job["tasks"]["translation-short"]["runs"] = 5
    job["outputs"]["card"] = str(Path(job["outputs"]["folder"], "card-killed.json"))
    (study.folder / "more.json").write_text(json.dumps(job))

    def complete() -> dict[Path, int]:
        notes = folder.glob("*/run-*/.completed.json")
        return {file: file.stat().st_mtime_ns for file in notes}

    before = complete()
    command = [study.python, "scripts/evaluate.py", "more.json"]
    process = subprocess.Popen(
        command,
        cwd=study.folder,
        env=study.environment(),
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: len(complete()) >= len(before) + 2, process)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    with (folder / ".lock").open() as lock:  # the evaluation itself ends right after it
        fcntl.flock(lock, fcntl.LOCK_EX)
    whole = complete()
    assert len(before) + 2 <= len(whole) < len(before) + 4
    subprocess.run(command, cwd=study.folder, env=study.environment(), check=True)
    after = complete()
    assert len(after) == len(before) + 4
    assert {file: after[file] for file in whole} == whole


WAIT = """
import os, time
while (place := os.environ.get("LEXIGRAFT_PRELOADED")) and set(os.listdir(place)) <= {"python"}:
    time.sleep(0.1)
"""


def test_a_run_uses_it_and_writes_the_same(tmp_path, miniature):
    """Snakemake itself is an ordinary Python here."""
    found = {}
    for preload in ("true", "false"):
        checkout = copy_project(tmp_path / preload)
        checkout.config = miniature
        # Training begins when the server is ready.
        checkout.edit(
            "scripts/prepare_corpus.py", "from lexigraft.job", f"{WAIT}from lexigraft.job"
        )
        start = "def stage(job: Job) -> None:\n"
        checkout.edit("scripts/train.py", start, f"{start}    print(*__import__('sys').modules)\n")
        cell = "tiny/telugu/expand-50/align/short/seed-0"
        result = run_command(
            [sys.executable, *checkout.command(f"results/training/{cell}/card.json")[1:]],
            cwd=checkout.folder,
            env={**checkout.environment(), "LEXIGRAFT_PRELOAD": preload},
        )
        assert result.returncode == 0, result.stdout + result.stderr
        log = (checkout.folder / f"results/logs/training/{cell}.log").read_text()
        imported = "transformers.trainer" in log.split("\n")[0].split()
        assert imported == (preload == "true")
        changed = checkout.folder / f"results/training/{cell}/changed.safetensors"
        found[preload] = changed.read_bytes()
    assert found["true"] == found["false"]
