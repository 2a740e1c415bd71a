"""Jobs that outlived the Snakemake which submitted them, in Slurm's queue."""

import subprocess
from pathlib import Path

PREFIX = "lexigraft_"  # slurm-jobname-prefix of profiles/slurm, as Slurm's job names begin


def notice_of_orphans(folder: Path) -> str | None:
    """What to tell about jobs of an earlier Snakemake in a working folder; None if there are none.

    To be asked for while this Snakemake holds the folder and has submitted nothing.
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
        return None  # no Slurm here, or it does not answer: submitting will say so
    rows = (line.split("|", 2) for line in listed.splitlines() if line.count("|") >= 2)
    jobs = [job for job, name, place in rows if name.startswith(PREFIX) and place == str(folder)]
    if not jobs:
        return None
    return (
        f"Slurm still has {len(jobs)} job(s) of an earlier run in this folder. New jobs on the "
        f"same outputs wait for them; to stop them instead: scancel {' '.join(jobs)}"
    )
