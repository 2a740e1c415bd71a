"""What jobs have made stays: when Snakemake is killed, and when they or their neighbours fail."""

import asyncio
import inspect
import json
import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import snakemake.api  # noqa: F401 (its modules import each other, and begin here)
from snakemake.jobs import GroupJob, Job
from snakemake.persistence import PersistenceBase
from snakemake.scheduling.job_scheduler import JobScheduler

from lexigraft.provenance import write_card
from tests import warm
from workflow.made import is_made, keep_what_is_made

REPOSITORY = Path(__file__).resolve().parents[2]
RECORD = "out/record.json"
SNAKEFILE = f"""
import json, os, sys
from snakemake.jobs import GroupJob, Job
from snakemake.persistence import PersistenceBase
from snakemake.scheduling.job_scheduler import JobScheduler

sys.path.insert(0, "{REPOSITORY}")
from workflow.made import keep_what_is_made

keep_what_is_made(Job, GroupJob, PersistenceBase, JobScheduler)
os.environ["SNAKEMAKE"] = str(os.getpid())

JOB = json.dumps({{
    "rule": "make",
    "inputs": {{}},
    "settings": {{"value": config["value"]}},
    "outputs": {{"folder": "out", "record": "{RECORD}"}},
}})

rule make:
    output:
        "{RECORD}",
    params:
        job=lambda wildcards: JOB,
    shell:
        "python work.py {{params.job:q}}"
"""
WORK = """
import os, signal, sys
from pathlib import Path

from lexigraft.atomic import write_json
from lexigraft.job import run

run(lambda job: write_json(job["outputs"]["record"], job["settings"]))
accident = Path("accident").read_text()
if accident == "kill":
    os.kill(int(os.environ["SNAKEMAKE"]), signal.SIGKILL)
sys.exit(accident == "fail")
"""


@pytest.fixture
def study(tmp_path):
    """Runs one small job by Snakemake; afterwards that job has the accident it is told."""
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "work.py").write_text(WORK)
    accident = tmp_path / "accident"
    accident.write_text("none")

    def run(*arguments: str, value: int = 1, then: str = "none") -> SimpleNamespace:
        accident.write_text(then)
        command = [warm.python(), "-m", "snakemake", "--cores", "1", "--rerun-incomplete"]
        done = subprocess.run(
            [*command, "--config", f"value={value}", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            check=False,
        )
        usage = tmp_path / "out/usage.jsonl"
        return SimpleNamespace(
            status=done.returncode,
            said=done.stdout + done.stderr,
            times=len(usage.read_text().splitlines()) if usage.exists() else 0,
        )

    run.folder = tmp_path
    return run


def plans_it(done) -> bool:
    assert done.status == 0, done.said
    return re.search(r"^make\s+1$", done.said, re.MULTILINE) is not None


@pytest.fixture
def killed(study):
    """The same, after a Snakemake that was killed while its job went on to its end."""
    first = study(then="kill")
    assert first.status != 0
    assert (study.folder / RECORD).exists(), first.said
    assert study("--unlock").status == 0
    return study


def test_what_ended_after_snakemake_was_killed_is_not_made_again(killed):
    assert not plans_it(killed("--dry-run"))
    again = killed()
    assert (again.status, again.times) == (0, 1), again.said


def test_it_is_made_again_once_its_settings_change(killed):
    assert killed().status == 0
    assert plans_it(killed("--dry-run", value=2))


def test_it_is_made_again_where_it_is_of_other_settings(killed):
    assert plans_it(killed("--dry-run", value=2))


def test_it_is_made_again_where_it_is_not_whole(killed):
    (killed.folder / RECORD).write_text("{}")
    again = killed()
    assert (again.status, again.times) == (0, 2), again.said


def test_a_job_that_fails_after_its_work_is_done_keeps_it(study):
    assert study(then="fail").status != 0
    assert json.loads((study.folder / RECORD).read_text()) == {"value": 1}
    assert not plans_it(study("--dry-run"))


# ---- where there is a cluster: tests/cluster has the same for real -----------------------------


class Member(SimpleNamespace):
    """As much of Snakemake's `Job`."""

    __hash__ = object.__hash__


@pytest.fixture
def jobs(tmp_path):
    """A group's members by name: one that is done, one of earlier settings, one without a card."""
    members = {}
    for name in ("done", "earlier", "begun"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "record.json").write_text("{}")
        described = {"rule": "r", "settings": {"value": 1}, "outputs": {"folder": str(folder)}}
        members[name] = Member(
            params={"job": json.dumps(described)},
            output=[str(folder / "record.json")],
            name=name,
            is_group=lambda: False,
        )
        if name != "begun":
            value = 1 if name == "done" else 0
            write_card(folder, described | {"settings": {"value": value}}, ["record.json"])
    return members


class Group:
    """As much of its `GroupJob`."""

    def __init__(self, jobs, attempt):
        self.jobs, self.attempt, self.name = frozenset(jobs), attempt, "group"
        self.is_group = lambda: True
        self.logged = []

    def get_target_spec(self):
        return {job.name for job in self.jobs}

    def log_error(self, msg=None, aux_logs=None, **facts):
        self.logged.append((msg, {job.name for job in self.jobs}))


@pytest.fixture
def classes():
    """What stands for Snakemake's classes, repaired."""

    class One:
        async def cleanup(self, skip_outputs):
            Path(self.output[0]).unlink()

    class Store:
        def __init__(self, remote_exec):
            self.dag = SimpleNamespace(workflow=SimpleNamespace(remote_exec=remote_exec))
            self.noted = []

        async def incomplete(self, job):
            return list(job.output)

        async def finished(self, job):
            self.noted.append(job.name)

    class Scheduler:
        def error_callback(self, job):
            return "failed"

        def finish_callback(self, job):
            return "finished"

    group = type("Copied", (Group,), {})
    keep_what_is_made(One, group, Store, Scheduler)
    return SimpleNamespace(job=One, group=group, store=Store, scheduler=Scheduler)


def test_a_job_has_made_what_its_own_card_says_is_whole(jobs):
    assert {name: is_made(job) for name, job in jobs.items()} == {
        "done": True, "earlier": False, "begun": False,
    }  # fmt: skip


def test_a_job_without_a_description_has_made_nothing(jobs):
    jobs["done"].params = {}
    assert not is_made(jobs["done"])


def test_outputs_of_a_failed_job_go_unless_it_made_them(jobs, classes):
    for job in jobs.values():
        asyncio.run(classes.job.cleanup(job, []))
    assert {name for name, job in jobs.items() if Path(job.output[0]).exists()} == {"done"}


def test_a_group_is_sent_as_a_whole_and_again_without_what_is_done(jobs, classes):
    first, second = (classes.group(jobs.values(), attempt) for attempt in (1, 2))
    assert first.get_target_spec() == set(jobs)
    assert second.get_target_spec() == {"earlier", "begun"}
    assert second.jobs == frozenset(jobs.values())


def test_a_group_that_fails_names_what_is_not_done(jobs, classes):
    group = classes.group(jobs.values(), 1)
    group.log_error("why", aux_logs=[])
    assert group.logged == [("why", {"earlier", "begun"})]


@pytest.mark.parametrize(
    ("names", "local", "counts"),
    [
        (["done"], False, "finished"),
        (["done", "begun"], False, "failed"),
        (["done"], True, "failed"),
    ],
)
def test_all_made_counts_as_done_whatever_a_cluster_says(jobs, classes, names, local, counts):
    scheduler = classes.scheduler()
    scheduler.workflow = SimpleNamespace(local_exec=local)
    assert scheduler.error_callback(classes.group([jobs[name] for name in names], 1)) == counts
    if len(names) == 1:
        assert scheduler.error_callback(jobs[names[0]]) == counts


@pytest.mark.parametrize(("in_a_job", "noted"), [(False, ["done"]), (True, [])])
def test_a_job_is_noted_by_the_snakemake_that_sent_it_alone(jobs, classes, in_a_job, noted):
    store = classes.store(in_a_job)
    asyncio.run(store.finished(jobs["done"]))
    assert store.noted == noted


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        (Job.cleanup, ["self", "skip_outputs"]),
        (GroupJob.log_error, ["self", "msg", "aux_logs", "kwargs"]),
        (GroupJob.get_target_spec, ["self"]),
        (PersistenceBase.incomplete, ["self", "job"]),
        (PersistenceBase.finished, ["self", "job"]),
        (JobScheduler.error_callback, ["self", "job"]),
    ],
)
def test_snakemake_has_what_is_replaced(method, parameters):
    assert list(inspect.signature(method).parameters) == parameters
