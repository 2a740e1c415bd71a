"""Finished work stays when Snakemake is killed, misjudges a job, or the clock is wrong."""

import json
import os
import re
import time
from types import SimpleNamespace

import pytest

from tests import preloaded_python
from tests.conftest import run_command

SNAKEFILE = """
import json, os
os.environ["SNAKEMAKE"] = str(os.getpid())

JOB = json.dumps({
    "rule": "make",
    "inputs": {"words": "words.txt"},
    "settings": {"value": config["value"]},
    "outputs": {"folder": "out", "record": "out/record.json"},
})

rule make:
    input:
        "words.txt"
    output:
        "out/card.json",
    params:
        job=lambda wildcards: JOB,
    shell:
        "python work.py {params.job:q}"
"""
WORK = """
import os, signal, sys
from pathlib import Path

from lexigraft.artifacts.atomic import write_json
from lexigraft.job import run


def stage(job):
    write_json(job["outputs"]["record"], job["settings"])
    return ["record.json"], {}


run(stage)
accident = Path("accident").read_text()
if accident == "kill":
    os.kill(int(os.environ["SNAKEMAKE"]), signal.SIGKILL)
sys.exit(accident == "fail")
"""
RECORD = "out/record.json"


@pytest.fixture
def study(tmp_path):
    """Runs one small job with Snakemake; `then` is what happens after its work is done."""
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "words.txt").write_text("a b\n")
    accident = tmp_path / "accident"

    def run(*arguments: str, value: int = 1, then: str = "none") -> SimpleNamespace:
        accident.write_text(then)
        snakemake = [preloaded_python.python(), "-m", "snakemake"]
        command = [*snakemake, "--cores", "1", "--rerun-incomplete"]
        done = run_command([*command, "--config", f"value={value}", *arguments], cwd=tmp_path)
        usage = tmp_path / "out/usage.jsonl"
        return SimpleNamespace(
            status=done.returncode,
            said=done.stdout + done.stderr,
            times=len(usage.read_text().splitlines()) if usage.exists() else 0,
        )

    run.folder = tmp_path
    return run


@pytest.fixture
def killed(study):
    """The same, after a Snakemake that was killed while its job went on to its end."""
    first = study(then="kill")
    assert first.status != 0
    assert (study.folder / RECORD).exists(), first.said
    assert study("--unlock").status == 0
    return study


@pytest.mark.fault(
    "kill",
    "Snakemake alone is killed with SIGKILL, and its job runs to completion",
    "the next run recognizes the finished work and reuses it",
)
def test_what_ended_after_snakemake_was_killed_is_not_done_again(killed):
    again = killed()
    assert (again.status, again.times) == (0, 1), again.said


def test_it_is_done_again_once_its_settings_change(killed):
    again = killed(value=2)
    assert (again.status, again.times) == (0, 2), again.said
    assert json.loads((killed.folder / RECORD).read_text()) == {"value": 2}


@pytest.mark.fault(
    "damage",
    "a file of finished work is damaged or missing when its job is requested",
    "the work is recomputed",
)
def test_it_is_done_again_where_it_is_damaged(killed):
    (killed.folder / RECORD).write_text("{}")
    again = killed()
    assert (again.status, again.times) == (0, 2), again.said


@pytest.mark.fault(
    "kill",
    "a job is reported as failed after its work was done",
    "its outputs are kept, and the next run reuses them",
)
def test_a_job_that_is_called_failed_after_its_work_is_done_keeps_it(study):
    assert study(then="fail").status != 0
    assert json.loads((study.folder / RECORD).read_text()) == {"value": 1}
    again = study()
    assert (again.status, again.times) == (0, 1), again.said


@pytest.mark.fault(
    "machine",
    "the clock was a day ahead when inputs were written, or has been set back since",
    "nothing is recomputed",
)
def test_an_input_from_the_future_costs_no_work(study):
    tomorrow = time.time_ns() + 24 * 3600 * 10**9
    os.utime(study.folder / "words.txt", ns=(tomorrow, tomorrow))
    first = study()
    assert (first.status, first.times) == (0, 1), first.said
    plan = study("--dry-run")
    assert not re.search(r"^make\s+1$", plan.said, re.MULTILINE)


@pytest.mark.fault(
    "machine",
    "files have new modification times but the same content, for example after a copy",
    "nothing is recomputed",
)
def test_an_input_that_is_written_again_with_the_same_content_costs_no_work(study):
    assert study().status == 0
    (study.folder / "words.txt").write_text("a b\n")
    again = study("--forcerun", "make")
    assert (again.status, again.times) == (0, 1), again.said
    (study.folder / "words.txt").write_text("b c\n")
    assert study().times == 2
