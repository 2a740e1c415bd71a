"""Slurm before a run: whether its commands exist, and what an earlier, killed run left behind.

Jobs of a cluster outlive a Snakemake that is killed. How such a job made its output is recorded
nowhere: for Snakemake 9.27 the output is up to date from then on, whatever the settings. Therefore
a Snakemake that submits jobs leaves a file in its working folder until it ends. The next one that
finds this file dates back the cards that were written since: Snakemake then starts those of their
jobs again that it has no record of, and these end at once if complete (lexigraft/completion.py).
"""

import fcntl
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import IO

PREFIX = "lexigraft_"  # slurm-jobname-prefix of profiles/slurm, as Slurm's job names begin
_MARKER = ".snakemake/submitting-{}"  # in the working folder, by study
_CLOCKS_DIFFER = 3600  # seconds, at most
_OLD = 10**9  # seconds of Unix time, in 2001
_held: list[IO[str]] = []  # open, and locked, until the process ends


def missing_slurm(executor: str) -> str | None:
    """An error message if Snakemake's executor is Slurm and this machine cannot submit jobs."""
    if executor != "slurm" or shutil.which("sbatch"):
        return None
    return (
        "profiles/slurm: sbatch is not on PATH; start Snakemake where jobs are submitted to Slurm, "
        "or without --profile to run on this machine"
    )


def leftover_jobs(folder: Path) -> str | None:
    """A warning about jobs that an earlier Snakemake submitted from `folder`; None without any.

    Call it while this Snakemake has the folder's lock and before it submits jobs.
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
        f"same outputs wait for them; to cancel them instead: scancel {' '.join(jobs)}"
    )


def begin_submitting(executor: str, folder: Path, study: str) -> None:
    """Leave a file in the working folder until `end_submitting`, if jobs are submitted."""
    if executor == "local":
        return
    with suppress(OSError):
        file = (folder / _MARKER.format(study)).open("w", encoding="utf-8")
        _held.append(file)
        file.write(f"{os.getpid()}\n")  # which dates it
        file.flush()
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def end_submitting() -> None:
    """Delete that file: Snakemake has recorded all that its jobs wrote."""
    while _held:
        file = _held.pop()
        Path(file.name).unlink(missing_ok=True)
        file.close()


def date_back_unrecorded(folder: Path, study: str, results: str) -> None:
    """Date back the cards that jobs of a killed Snakemake may have written; its file stays.

    The later a card was written, the older its date: each is older than all that its job read.
    Where Snakemake has a record, it compares the checksums of what is newer, and starts nothing.
    """
    try:
        with (folder / _MARKER.format(study)).open("r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            since = os.fstat(file.fileno()).st_mtime - _CLOCKS_DIFFER
    except OSError:
        return  # none was killed, or one is at work
    for card in Path(results).rglob("card*.json"):
        with suppress(OSError):
            if (after := card.stat().st_mtime - since) > 0:
                os.utime(card, (_OLD - after, _OLD - after))
