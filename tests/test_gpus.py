"""GPUs: two jobs never share one, and a job that ends, however it ends, frees its own."""

import os
import signal
import subprocess
import sys

import pytest

from lexigraft import UserError, gpus
from tests.conftest import REPOSITORY

SHOW = "import os, sys; print(os.environ.get('CUDA_VISIBLE_DEVICES'), flush=True); sys.stdin.read()"


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """A machine of two GPUs, with a folder for temporary files of its own."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return tmp_path


@pytest.fixture
def job():
    """Starts jobs that print the GPUs that they see and run until their standard input ends."""
    started = []

    def start(count: int) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-m", "lexigraft.gpus", str(count), sys.executable, "-c", SHOW],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        with process:  # closes its streams
            pass


def seen(process: subprocess.Popen) -> str:
    return process.stdout.readline().strip()


@pytest.mark.fault(
    "parallel",
    "two jobs on one machine request a GPU",
    "each gets a different one or waits until one is free",
)
def test_jobs_at_the_same_time_get_different_gpus(job):
    assert {seen(job(1)), seen(job(1))} == {"0", "1"}


@pytest.mark.fault(
    "parallel",
    "two jobs on one machine request a GPU",
    "each gets a different one or waits until one is free",
)
def test_a_job_of_two_gpus_waits_until_both_are_free(job):
    single = job(1)
    assert seen(single) == "0"
    double = job(2)
    assert double.stderr.readline() == "waiting for 2 of 2 GPUs: other jobs use them\n"
    single.stdin.close()
    assert seen(double) == "0,1"


@pytest.mark.fault(
    "kill",
    "a process that holds a folder lock or a GPU is killed",
    "the lock or GPU is released immediately",
)
def test_a_killed_job_frees_its_gpu(job):
    first, second = job(1), job(1)
    killed = {seen(first): first, seen(second): second}["0"]
    waiting = job(1)
    assert waiting.stderr.readline()
    killed.send_signal(signal.SIGKILL)
    assert seen(waiting) == "0"


def test_jobs_of_slurm_do_not_wait_for_each_other(job, monkeypatch):
    for number in ("7", "8"):
        monkeypatch.setenv("SLURM_JOB_ID", number)
        assert seen(job(2)) == "0,1"
        assert seen(job(1)) == "0"


def test_reservations_can_be_turned_off(job, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_RESERVE_GPUS", "0")
    assert seen(job(1)) == seen(job(2)) == "0,1"


@pytest.mark.fault(
    "machine",
    "a job requests more GPUs than the machine has",
    "a one-line error message gives the number available",
)
def test_a_job_that_needs_more_gpus_than_there_are_says_so():
    with pytest.raises(UserError, match="needs 3 GPUs but this machine has 2"):
        gpus.reserve(3)


def test_a_lock_folder_of_somebody_else_is_refused(machine):
    (machine / "elsewhere").mkdir()
    (machine / f"lexigraft-gpus-{os.getuid()}").symlink_to(machine / "elsewhere")
    with pytest.raises(UserError, match="only you can write to"):
        gpus.reserve(1)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (
            "GPU 0: NVIDIA H200 (UUID: GPU-0a1b)\nGPU 1: NVIDIA H200 (UUID: GPU-2c3d)\n",
            ["0", "1"],
        ),
        (
            "GPU 0: NVIDIA A100 (UUID: GPU-0a1b)\n"
            "  MIG 3g.20gb     Device  0: (UUID: MIG-4e5f)\n"
            "  MIG 3g.20gb     Device  1: (UUID: MIG-6a7b)\n",
            ["MIG-4e5f", "MIG-6a7b"],
        ),
    ],
)
def test_gpus_are_listed_by_nvidia_smi(machine, monkeypatch, listed, expected):
    program = machine / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{listed}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{machine}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert gpus.devices() == expected


@pytest.mark.parametrize(
    ("visible", "expected"),
    [("3,1", ["3", "1"]), ("", []), ("2,-1,3", ["2"])],
)
def test_gpus_that_the_user_chose_are_the_only_ones(monkeypatch, visible, expected):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus.devices() == expected


def test_the_gpus_of_this_machine_limit_no_other():
    assert gpus.local_limit(["snakemake", "--cores", "8"], {}) == 2
    assert gpus.local_limit(["snakemake", "--profile=profiles/slurm"], {}) is None
    assert gpus.local_limit(["snakemake", "-e", "slurm"], {}) is None
    assert gpus.local_limit(["snakemake"], {"SNAKEMAKE_PROFILE": "slurm"}) is None
