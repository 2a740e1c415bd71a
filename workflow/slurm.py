"""Slurm before a run: whether its commands are there, and jobs that an earlier run left in it."""

import shutil
import subprocess
from pathlib import Path

PREFIX = "lexigraft_"  # slurm-jobname-prefix of profiles/slurm, as Slurm's job names begin


def missing_slurm(executor: str) -> str | None:
    """What to say if Snakemake's executor is Slurm and this machine cannot submit jobs to it."""
    if executor != "slurm" or shutil.which("sbatch"):
        return None
    return (
        "profiles/slurm: sbatch is not on PATH; start Snakemake where jobs are submitted to Slurm, "
        "or without --profile to run on this machine"
    )


def leftover_jobs(folder: Path) -> str | None:
    """A warning about jobs that an earlier Snakemake submitted from `folder`; None without any.

    Call it while this Snakemake holds the folder and has submitted nothing.
    """
    try:
        listed = subprocess.run(
            ["squeue", "--me", "--noheader", "--format=%i|%j|%Z"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None  # no Slurm, or it does not answer: a submission reports that
    rows = (line.split("|", 2) for line in listed.splitlines() if line.count("|") >= 2)
    jobs = [job for job, name, place in rows if name.startswith(PREFIX) and place == str(folder)]
    if not jobs:
        return None
    return (
        f"Slurm still has {len(jobs)} job(s) of an earlier run in this folder. New jobs on the "
        f"same outputs wait for them; to cancel them instead: scancel {' '.join(jobs)}"
    )
