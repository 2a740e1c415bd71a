"""Slurm: a machine without it says so, and jobs of a Snakemake that died are found in its queue."""

from pathlib import Path

import pytest
import yaml

from workflow.slurm import PREFIX, leftover_jobs, missing_slurm


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """A `squeue` that prints what it is given."""

    def fill(*lines: str, status: int = 0) -> None:
        program = tmp_path / "squeue"
        program.write_text(
            "#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + f"\nEND\nexit {status}\n"
        )
        program.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return fill


def test_jobs_of_this_folder_are_named(queue, tmp_path):
    queue(
        f"12|lexigraft_0f3a|{tmp_path}",
        "13|lexigraft_0f3a|/elsewhere",
        f"14|of-somebody|{tmp_path}",
        f"15|lexigraft_77aa|{tmp_path}",
    )
    warning = leftover_jobs(tmp_path)
    assert warning is not None
    assert "2 job(s)" in warning
    assert warning.endswith("scancel 12 15")


def test_an_empty_queue_is_no_news(queue, tmp_path):
    queue()
    assert leftover_jobs(tmp_path) is None


def test_a_queue_that_does_not_answer_is_no_error(queue, tmp_path):
    queue("slurm_load_jobs error: Unable to contact slurm controller", status=1)
    assert leftover_jobs(tmp_path) is None


def test_without_slurm_there_is_nothing_to_ask(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert leftover_jobs(tmp_path) is None


def test_they_are_known_by_the_prefix_of_the_profile():
    profile = Path(__file__).resolve().parents[2] / "profiles/slurm/config.yaml"
    assert yaml.safe_load(profile.read_text())["slurm-jobname-prefix"] + "_" == PREFIX


def test_a_machine_that_cannot_submit_says_so_before_the_first_job(checkout, monkeypatch):
    result = checkout.snakemake("--profile", "profiles/slurm")
    output = result.stdout + result.stderr
    assert result.returncode == 1
    assert "profiles/slurm: sbatch is not on PATH" in output
    assert "Job submission failed" not in output and "Traceback" not in output


def test_only_jobs_of_slurm_need_it(queue, tmp_path):
    queue()
    assert missing_slurm("slurm") is not None
    assert missing_slurm("local") is None
    (tmp_path / "squeue").rename(tmp_path / "sbatch")
    assert missing_slurm("slurm") is None
