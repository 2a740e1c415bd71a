"""Disks that are full or closed, files that are damaged, and clocks that are wrong."""

import json
import os
import shutil
import subprocess
import time

import pytest

from tests.cluster.conftest import CELL, card, record

FIRST, SECOND = CELL.format(0), CELL.format(1)


@pytest.fixture
def small_disk(prepared, copied):
    """A checkout whose results lie on a file system of their own, with little room on it."""
    checkout = copied(prepared)
    results = checkout.folder / "results"
    shutil.move(results, checkout.folder / "made")

    def mount(*options: str) -> None:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", results], check=True
        )

    results.mkdir()
    try:
        mount("size=64m")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine lets nobody mount a file system")
    try:
        shutil.copytree(checkout.folder / "made", results, dirs_exist_ok=True)
        checkout.mount = mount
        yield checkout
    finally:
        subprocess.run(["umount", results], check=True)


def failure_of(head) -> str:
    """The one line by which the script of a run's only job ended."""
    assert head.process.returncode != 0, head.said
    assert "Traceback" not in head.said
    lines = {line.strip() for line in head.said.splitlines() if line.strip().startswith("error: ")}
    assert len(lines) == 1, head.said
    return lines.pop()


def test_a_full_disk_and_a_closed_one(small_disk):
    used = shutil.disk_usage(small_disk.folder / "results").used
    small_disk.mount("remount", f"size={used + 300_000}")
    full = small_disk.run("--retries", "0", "--", card(FIRST))
    assert "space" in failure_of(full)
    assert not (small_disk.folder / card(FIRST)).exists()

    small_disk.mount("remount", "size=64m")
    assert small_disk.run("--", card(FIRST)).process.returncode == 0
    before = (small_disk.folder / card(FIRST)).stat().st_mtime_ns

    small_disk.mount("remount", "ro")
    closed = small_disk.run("--retries", "0", "--", card(FIRST), card(SECOND))
    assert closed.process.returncode != 0
    assert "results cannot be written there (Read-only file system)" in closed.said
    assert "Traceback" not in closed.said

    small_disk.mount("remount", "rw")
    again = small_disk.run("--", card(FIRST), card(SECOND))
    assert again.process.returncode == 0, again.said
    assert (small_disk.folder / card(FIRST)).stat().st_mtime_ns == before
    assert (small_disk.folder / card(SECOND)).exists()


def test_a_file_that_is_cut_off_stops_what_reads_it_and_is_made_anew(prepared, copied):
    checkout = copied(prepared)
    assert checkout.snakemake("--", card(FIRST), card(SECOND)).returncode == 0
    before = (checkout.folder / card(SECOND)).stat().st_mtime_ns
    folder = (checkout.folder / card(FIRST)).parent
    weights = folder / "changed.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)
    wanted = [record(FIRST, "perplexity"), record(SECOND, "perplexity")]

    stopped = checkout.run("--retries", "0", "--", *wanted)
    assert "changed.safetensors" in failure_of(stopped)
    assert not (checkout.folder / wanted[0]).exists()
    assert (checkout.folder / wanted[1]).exists()

    shutil.rmtree(folder)  # as the message says
    assert checkout.run("--", *wanted).process.returncode == 0
    assert (checkout.folder / wanted[0]).exists()
    assert (checkout.folder / card(SECOND)).stat().st_mtime_ns == before
    sent = [job.comment for job in checkout.submitted() if job.state == "COMPLETED"]
    assert len(sent) == 3 and sum("train" in comment for comment in sent) == 1


def test_inputs_from_tomorrow_cost_no_training(prepared, copied):
    """A clock was wrong when they were made, or has been set back since."""
    checkout = copied(prepared)
    assert checkout.snakemake("--", card(FIRST)).returncode == 0
    tomorrow = time.time() + 86_400
    for folder in ("corpus", "vocabulary", "initialization"):
        for path in (checkout.folder / "results" / folder).rglob("*"):
            os.utime(path, (tomorrow, tomorrow))
    head = checkout.run("--retries", "0", "--", card(FIRST), card(SECOND))
    assert head.process.returncode == 0, head.said
    assert "is newer than the clock" in head.said
    assert len(checkout.submitted()) == 1  # the finished cell is left alone
    assert json.loads((checkout.folder / card(SECOND)).read_text())["steps"] > 0
    assert checkout.planned("--", card(FIRST), card(SECOND)) == set()
