"""Full and read-only disks, damaged files, and wrong clocks."""

import json
import os
import shutil
import subprocess
import time

import pytest

from tests.cluster.conftest import CELL, card, evaluation_card, record
from tests.workflow.conftest import errors_of

FIRST, SECOND = CELL.format(0), CELL.format(1)


@pytest.fixture
def small_disk(prepared, copied):
    """A checkout whose results are on a small file system of their own."""
    checkout = copied(prepared)
    results = checkout.folder / "results"
    shutil.move(results, checkout.folder / "prepared-results")

    def mount(*options: str) -> None:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", results], check=True
        )

    results.mkdir()
    try:
        mount("size=64m")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("file systems cannot be mounted on this machine")
    try:
        shutil.copytree(checkout.folder / "prepared-results", results, dirs_exist_ok=True)
        checkout.mount = mount
        yield checkout
    finally:
        subprocess.run(["umount", results], check=True)


def failure_of(submitter) -> str:
    """The one error with which a run's only job failed, which is in its log and at the end."""
    assert submitter.process.returncode != 0, submitter.output
    assert "Traceback" not in submitter.output
    lines = errors_of(submitter.output)
    assert len(lines) == 1, submitter.output
    return lines.pop()


@pytest.mark.fault(
    "disk",
    "a file system fills up and then becomes read-only during a run on a cluster",
    "no complete cell is lost; the run continues once the disk is writable again",
)
def test_full_and_read_only_disks_lose_no_complete_cell(small_disk):
    used = shutil.disk_usage(small_disk.folder / "results").used
    small_disk.mount("remount", f"size={used + 300_000}")
    full = small_disk.run("--retries", "0", "--", card(FIRST))
    assert "space" in failure_of(full)
    assert not (small_disk.folder / card(FIRST)).exists()

    small_disk.mount("remount", "size=64m")
    assert small_disk.run("--", card(FIRST)).process.returncode == 0
    before = (small_disk.folder / card(FIRST)).stat().st_mtime_ns

    small_disk.mount("remount", "ro")
    read_only = small_disk.run("--retries", "0", "--", card(FIRST), card(SECOND))
    assert read_only.process.returncode != 0
    assert "results cannot be written there (Read-only file system)" in read_only.output
    assert "Traceback" not in read_only.output

    small_disk.mount("remount", "rw")
    again = small_disk.run("--", card(FIRST), card(SECOND))
    assert again.process.returncode == 0, again.output
    assert (small_disk.folder / card(FIRST)).stat().st_mtime_ns == before
    assert (small_disk.folder / card(SECOND)).exists()


@pytest.mark.fault(
    "damage",
    "a file of a cell is truncated before its evaluation on a cluster",
    "jobs that read it stop, others continue; after its folder is deleted, it is trained again",
)
def test_a_truncated_file_stops_the_jobs_that_read_it_and_is_trained_again(prepared, copied):
    checkout = copied(prepared)
    assert checkout.snakemake("--", card(FIRST), card(SECOND)).returncode == 0
    before = (checkout.folder / card(SECOND)).stat().st_mtime_ns
    folder = (checkout.folder / card(FIRST)).parent
    weights = folder / "changed.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)
    wanted = [evaluation_card(FIRST), evaluation_card(SECOND)]

    stopped = checkout.run("--retries", "0", "--", *wanted)
    assert "changed.safetensors" in failure_of(stopped)
    assert not (checkout.folder / wanted[0]).exists()
    assert not (checkout.folder / record(FIRST, "perplexity")).exists()
    assert (checkout.folder / wanted[1]).exists()

    shutil.rmtree(folder)  # as the message advises
    assert checkout.run("--", *wanted).process.returncode == 0
    assert (checkout.folder / wanted[0]).exists()
    assert (checkout.folder / card(SECOND)).stat().st_mtime_ns == before
    completed = [job.comment for job in checkout.submitted() if job.state == "COMPLETED"]
    assert sorted(comment.split("_")[1] for comment in completed) == [
        "evaluate",
        "evaluate",
        "train",
    ]


@pytest.mark.fault(
    "machine",
    "the clock was a day ahead when inputs were written, or has been set back since",
    "nothing is recomputed",
)
def test_inputs_dated_tomorrow_cost_no_training(prepared, copied):
    """A clock was wrong when they were written, or has been set back since."""
    checkout = copied(prepared)
    assert checkout.snakemake("--", card(FIRST)).returncode == 0
    tomorrow = time.time() + 86_400
    for folder in ("corpus", "vocabulary", "initialization"):
        for path in (checkout.folder / "results" / folder).rglob("*"):
            os.utime(path, (tomorrow, tomorrow))
    submitter = checkout.run("--retries", "0", "--", card(FIRST), card(SECOND))
    assert submitter.process.returncode == 0, submitter.output
    assert len(checkout.submitted()) == 1  # the complete cell is not trained again
    assert json.loads((checkout.folder / card(SECOND)).read_text())["steps"] > 0
    assert checkout.planned("--", card(FIRST), card(SECOND)) == set()
