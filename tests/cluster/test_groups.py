"""The evaluations of a cell in one job of Slurm: one that fails costs the others nothing."""

import json
import re
import shutil
from types import SimpleNamespace

import pytest

from tests.cluster.conftest import CELL, card, record

TARGET = CELL.format(0)
WHOLE = [
    record(TARGET, "perplexity"),
    record(TARGET, "translation-short", 0),
    record(TARGET, "translation-short", 1),
]
LOST = record(TARGET, "greek")
GREEK = "results/corpus/greek"


def damage(file) -> None:
    text = file.read_text(encoding="utf-8")
    file.write_text(text[1:] + text[:1], encoding="utf-8")


def seen(checkout) -> dict[str, tuple[int, int]]:
    """Record -> when it was written, and how many times its evaluation was run to the end."""
    found = {}
    for name in [*WHOLE, LOST]:
        file = checkout.folder / name
        if file.exists():
            usage = (file.parent / "usage.jsonl").read_text(encoding="utf-8")
            found[name] = file.stat().st_mtime_ns, len(usage.splitlines())
    return found


@pytest.fixture(scope="module")
def story(prepared, copied):
    """Four evaluations of a cell, the text of one damaged: a run, the text mended, another run."""
    checkout = copied(prepared)

    def ask_greek_too(config):
        config["tasks"]["greek"] = {"kind": "perplexity", "language": "greek"}
        config["run_tasks"]["greek"] = {}

    checkout.change(ask_greek_too)
    made = checkout.snakemake("--", card(TARGET), f"{GREEK}/card.json")
    assert made.returncode == 0, made.stderr
    damage(checkout.folder / GREEK / "heldout.txt")
    failed = checkout.run("--", *WHOLE, LOST)
    then, attempts = seen(checkout), checkout.submitted()
    shutil.rmtree(checkout.folder / GREEK)  # as the message says
    again = checkout.run("--", *WHOLE, LOST)
    return SimpleNamespace(
        checkout=checkout,
        failed=failed,
        attempts=attempts,
        then=then,
        again=again,
        later=checkout.submitted()[len(attempts) :],
        now=seen(checkout),
    )


def test_the_group_is_tried_as_often_as_a_job_and_fails(story):
    assert story.failed.process.returncode != 0
    assert [job.state for job in story.attempts] == ["FAILED"] * 3


def test_what_the_others_made_stays(story):
    assert set(story.then) == set(WHOLE)


def test_no_attempt_does_their_work_again(story):
    assert {times for _, times in story.then.values()} == {1}


def test_the_message_names_what_failed_and_why_and_nothing_else(story):
    assert f"error: {GREEK}/heldout.txt: damaged" in story.failed.said
    in_errors = story.failed.said.partition("Error in group")[2]
    assert set(re.findall(r"^ +output: (\S+)", in_errors, re.MULTILINE)) == {LOST}


def test_the_next_run_does_what_is_missing_and_nothing_else(story):
    assert story.again.process.returncode == 0, story.again.said
    assert [job.state for job in story.later] == ["COMPLETED"]
    assert story.now == story.then | {LOST: story.now[LOST]}
    assert json.loads((story.checkout.folder / LOST).read_text())["task"] == "greek"
    assert story.checkout.planned("--", *WHOLE, LOST) == set()
