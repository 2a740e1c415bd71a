"""Slurm: a clear message without it, and what a killed Snakemake leaves behind."""

import os
import subprocess
import sys

import pytest
import yaml

from tests.conftest import REPOSITORY
from workflow.slurm import (
    PREFIX,
    begin_submitting,
    date_back_unrecorded,
    end_submitting,
    leftover_jobs,
)


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """A `squeue` that prints the given lines; no other command of Slurm is on PATH."""

    def fill(*lines: str, status: int = 0) -> None:
        program = tmp_path / "squeue"
        program.write_text(
            "#!/bin/sh\n/bin/cat <<'END'\n" + "\n".join(lines) + f"\nEND\nexit {status}\n"
        )
        program.chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    return fill


def test_jobs_of_this_folder_are_named(queue, tmp_path):
    queue(
        f"12|lexigraft_0f3a|{tmp_path}",
        "13|lexigraft_0f3a|/elsewhere",
        f"14|other|{tmp_path}",
        f"15|lexigraft_77aa|{tmp_path}",
    )
    warning = leftover_jobs(tmp_path)
    assert warning is not None
    assert "2 job(s)" in warning
    assert warning.endswith("scancel 12 15")


@pytest.mark.fault(
    "cluster",
    "Slurm's controller is unreachable when jobs of an earlier run are looked up",
    "no error; the run starts",
)
def test_an_unreachable_controller_is_no_error(queue, tmp_path):
    queue("slurm_load_jobs error: Unable to contact slurm controller", status=1)
    assert leftover_jobs(tmp_path) is None


def test_jobs_are_recognized_by_the_prefix_of_the_profile():
    profile = REPOSITORY / "profiles/slurm/config.yaml"
    assert yaml.safe_load(profile.read_text())["slurm-jobname-prefix"] + "_" == PREFIX


@pytest.mark.fault(
    "cluster", "a machine without `sbatch`", "a one-line error message before the first job"
)
def test_a_machine_that_cannot_submit_is_reported_before_the_first_job(
    checkout, tmp_path, monkeypatch
):
    commands = tmp_path / "commands"
    commands.mkdir()
    for command in ("sh", "bash", "which"):
        (commands / command).symlink_to(f"/usr/bin/{command}")
    monkeypatch.setenv("PATH", str(commands))
    result = checkout.snakemake("--profile", "profiles/slurm")
    output = result.stdout + result.stderr
    assert result.returncode == 1
    assert "profiles/slurm: sbatch is not on PATH" in output
    assert "Job submission failed" not in output and "Traceback" not in output


STUDY = "mine"
KILLED = f"""
import os, signal
from pathlib import Path
from workflow.slurm import begin_submitting
begin_submitting("slurm", Path.cwd(), {STUDY!r})
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def cards(tmp_path):
    """Two cards, one written during the last run and one long before it."""
    (tmp_path / ".snakemake").mkdir()
    files = [tmp_path / f"results/training/{name}/card.json" for name in ("new", "old")]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    yesterday = files[1].stat().st_mtime - 24 * 3600
    os.utime(files[1], (yesterday, yesterday))
    return files


def dated_back(tmp_path, cards):
    before = [card.stat().st_mtime for card in cards]
    date_back_unrecorded(tmp_path, STUDY, str(tmp_path / "results"))
    return [card.stat().st_mtime < date for card, date in zip(cards, before, strict=True)]


def kill_a_submitter(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, env=environment, check=False)


def test_cards_written_since_a_killed_snakemake_began_are_dated_back(tmp_path, cards):
    kill_a_submitter(tmp_path)
    assert dated_back(tmp_path, cards) == [True, False]


def test_a_card_dated_back_is_older_than_what_its_job_read(tmp_path, cards):
    kill_a_submitter(tmp_path)
    now = cards[0].stat().st_mtime
    os.utime(cards[1], (now - 1, now - 1))  # read by the job of the first
    assert dated_back(tmp_path, cards) == [True, True]
    assert cards[0].stat().st_mtime < cards[1].stat().st_mtime


def test_dates_stay_while_a_snakemake_submits_jobs_and_after_it_ended(tmp_path, cards):
    begin_submitting("slurm", tmp_path, STUDY)
    assert dated_back(tmp_path, cards) == [False, False]
    end_submitting()
    assert dated_back(tmp_path, cards) == [False, False]


def test_a_local_run_does_not_forget_a_killed_one(tmp_path, cards):
    kill_a_submitter(tmp_path)
    begin_submitting("local", tmp_path, STUDY)
    end_submitting()
    assert dated_back(tmp_path, cards) == [True, False]
