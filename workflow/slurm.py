"""Slurm before a run: whether its commands exist, and what an earlier, killed run left behind.

Cluster jobs outlive a Snakemake that is killed. Nothing records how such a job created its output:
Snakemake 9.27 then considers the output up to date, whatever the settings. Therefore a Snakemake
that submits jobs keeps a file in its working folder until it ends. The next one that finds this
file backdates the cards that were written since. Snakemake then repeats those of their jobs of
which it has no record, and these end at once if they are complete
(lexigraft/artifacts/completion.py).
"""

import fcntl
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import IO

PREFIX = "lexigraft_"  # prefix of Slurm's job names: slurm-jobname-prefix of profiles/slurm
_MARKER = ".snakemake/submitting-{}"  # in the working folder, by study
_CLOCKS_DIFFER = 3600  # maximum difference between clocks, in seconds
_OLD = 10**9  # Unix time, in 2001
_held: list[IO[str]] = []  # open, and locked, until the process ends


def missing_slurm(executor: str) -> str | None:
    """An error message if Snakemake's executor is Slurm and this machine cannot submit jobs."""
    if executor != "slurm" or shutil.which("sbatch"):
        return None
    return (
        "profiles/slurm: sbatch is not on PATH; start Snakemake on a machine that can submit jobs "
        "to Slurm, or without --profile to run on this machine"
    )


def leftover_jobs(folder: Path) -> str | None:
    """A warning about jobs that an earlier Snakemake submitted from `folder`; None without any.

    Call it while this Snakemake holds the folder's lock and before it submits jobs.
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
        return None  # no Slurm, or no answer: the first submission will report it
    rows = (line.split("|", 2) for line in listed.splitlines() if line.count("|") >= 2)
    jobs = [job for job, name, place in rows if name.startswith(PREFIX) and place == str(folder)]
    if not jobs:
        return None
    return (
        f"Slurm still has {len(jobs)} job(s) of an earlier run in this folder. New jobs on the "
        f"same outputs wait for them; to cancel them instead, run: scancel {' '.join(jobs)}"
    )


def begin_submitting(executor: str, folder: Path, study: str) -> None:
    """Keep a file in the working folder until `end_submitting`, if jobs are submitted."""
    if executor == "local":
        return
    with suppress(OSError):
        file = (folder / _MARKER.format(study)).open("w", encoding="utf-8")
        _held.append(file)
        file.write(f"{os.getpid()}\n")  # sets its modification time
        file.flush()
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def end_submitting() -> None:
    """Delete that file: Snakemake has recorded all outputs of its jobs."""
    while _held:
        file = _held.pop()
        Path(file.name).unlink(missing_ok=True)
        file.close()


def date_back_unrecorded(folder: Path, study: str, results: str) -> None:
    """Backdate the cards that jobs of a killed Snakemake may have written; its file is kept.

    The later a card was written, the older its new date: each is older than all inputs of its job.
    If Snakemake has a record, it compares the checksums of newer inputs and starts nothing.
    """
    try:
        with (folder / _MARKER.format(study)).open("r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            since = os.fstat(file.fileno()).st_mtime - _CLOCKS_DIFFER
    except OSError:
        return  # none was killed, or one is running
    for card in Path(results).rglob("card*.json"):
        with suppress(OSError):
            if (after := card.stat().st_mtime - since) > 0:
                os.utime(card, (_OLD - after, _OLD - after))
