"""All tasks of a cell in one Slurm job: one task that fails does not affect the others."""

import json
import shutil
from types import SimpleNamespace

import pytest

from tests.cluster.conftest import CELL, card, evaluation_card, record, speed_card

TARGET = CELL.format(0)
OTHERS = [
    record(TARGET, "perplexity"),
    record(TARGET, "translation-short", 0),
    record(TARGET, "translation-short", 1),
]
FAILING = record(TARGET, "greek")
GREEK = "results/corpus/greek"
CARDS = (evaluation_card(TARGET), speed_card(TARGET))


def written(checkout) -> dict[str, int]:
    """Record -> when it was written."""
    files = {name: checkout.folder / name for name in [*OTHERS, FAILING]}
    return {name: file.stat().st_mtime_ns for name, file in files.items() if file.exists()}


def log_of(checkout) -> str:
    return (checkout.folder / f"results/logs/evaluation/{TARGET}.log").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def runs(prepared, copied):
    """Four runs of tasks on a cell, the text of one damaged; then that text repaired."""
    checkout = copied(prepared)

    def add_a_task(config):
        config["tasks"]["greek"] = {"kind": "perplexity", "language": "greek"}
        config["run_tasks"]["greek"] = {}

    checkout.change(add_a_task)
    trained = checkout.snakemake("--", card(TARGET), f"{GREEK}/card.json")
    assert trained.returncode == 0, trained.stderr
    text = checkout.folder / GREEK / "heldout.txt"
    text.write_text(text.read_text(encoding="utf-8")[::-1], encoding="utf-8")
    failed = checkout.run("--", *CARDS)
    submitted, after_failure, log = checkout.submitted(), written(checkout), log_of(checkout)
    shutil.rmtree(checkout.folder / GREEK)  # as the message advises
    again = checkout.run("--", *CARDS)
    return SimpleNamespace(
        checkout=checkout,
        failed=failed,
        submitted=submitted,
        after_failure=after_failure,
        log=log,
        again=again,
        submitted_again=checkout.submitted()[len(submitted) :],
        after_repair=written(checkout),
    )


def of_rule(jobs, rule):
    return [job for job in jobs if job.comment.startswith(f"rule_{rule}_wildcards")]


def test_the_job_fails_after_three_attempts(runs):
    assert runs.failed.process.returncode != 0
    assert [job.state for job in of_rule(runs.submitted, "evaluate")] == ["FAILED"] * 3


@pytest.mark.fault(
    "cluster",
    "one of several tasks of an evaluation fails in every attempt",
    "the others are recorded and not repeated; the message names the task and the reason",
)
def test_the_other_tasks_are_recorded(runs):
    assert set(runs.after_failure) == set(OTHERS)


def test_no_attempt_repeats_a_recorded_task(runs):
    assert "3 of 4 runs are complete" in runs.log  # the log of the last attempt
    assert "evaluating perplexity" not in runs.log and "evaluating translation" not in runs.log


@pytest.mark.fault(
    "cluster",
    "one of several tasks of an evaluation fails in every attempt",
    "the others are recorded and not repeated; the message names the task and the reason",
)
def test_the_message_names_the_task_that_failed_and_why(runs):
    assert f"error: 1 of 3 tasks failed: greek: {GREEK}/heldout.txt: damaged" in runs.failed.output


def test_the_speed_measurement_is_a_gpu_job_of_its_own_and_does_not_fail(runs):
    (job,) = of_rule(runs.submitted, "measure_speed")
    assert (job.state, job.partition, job.gpus) == ("COMPLETED", "gpu", 1)
    assert (runs.checkout.folder / record(TARGET, "speed-short")).exists()


def test_the_next_run_evaluates_only_what_is_missing(runs):
    assert runs.again.process.returncode == 0, runs.again.output
    assert [job.state for job in runs.submitted_again] == ["COMPLETED"]
    assert runs.after_repair == runs.after_failure | {FAILING: runs.after_repair[FAILING]}
    assert json.loads((runs.checkout.folder / FAILING).read_text())["task"] == "greek"
    assert runs.checkout.planned("--", *CARDS) == set()
