"""Patches of Snakemake 9.27, for behaviour that no option changes.

Whenever a job ends while others are ready, it sets a timer that runs its scheduler again when the
timespan of its rate limit is over (by default one second); that run sets a timer again. After a
thousand finished jobs, the scheduler runs a thousand times per second and takes most of a core
(benchmarks/planning.py). Upstream: snakemake/snakemake#3744.

When it is interrupted, it waits until all its jobs end.

Of equal keys in a config file or a profile, it silently takes the last.
"""

import argparse
import os
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from snakemake.common import __version__

from lexigraft.yaml_files import read_yaml

# Snakemake's default of `--max-jobs-per-timespan`.
DEFAULT_LIMIT = (100, 1)


def stop_rescheduling(scheduler: Any) -> None:
    """Remove the default rate limit and its timers; a limit that the user sets is kept.

    Raises
    ------
    AttributeError
        This version of Snakemake has no such limiter: check whether the patch is still needed.
    """
    for name in ("max_jobs", "timespan"):
        limiter = scheduler.job_rate_limiter
        if limiter is not None and not hasattr(limiter, name):
            raise AttributeError(f"Snakemake {__version__}: its rate limiter has no {name}")
    if limiter is not None and (limiter.max_jobs, limiter.timespan) == DEFAULT_LIMIT:
        # Snakemake itself uses None without a limit, in dry runs.
        scheduler.job_rate_limiter = None


def interrupt_jobs_with_snakemake(executor: str) -> None:
    """Have a Snakemake that receives SIGINT or SIGTERM send SIGINT to the processes of its jobs.

    A terminal sends SIGINT to all processes; `kill` and service managers send a signal to Snakemake
    alone. Jobs of any executor but the `local` one run on a cluster. Call it in the main thread
    after Snakemake has set its own handlers, which run afterwards.
    """
    usual = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, frame: Any) -> None:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                process.send_signal(signal.SIGINT)  # a shell then waits until its job ends
        if callable(own := usual[signal.Signals(number)]):
            own(number, frame)

    for number in usual if executor == "local" else ():
        signal.signal(number, handle)


def check_yaml(config_files: Iterable[str], arguments: Sequence[str], snakefile: str) -> None:
    """Read the config files and profiles of Snakemake's command line; raises like `read_yaml`."""
    from snakemake.cli import get_profile_dir

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--profile", action="append")
    parser.add_argument("--workflow-profile", default="default")
    given, _ = parser.parse_known_args(list(arguments))
    own = Path("profiles", given.workflow_profile)
    places = (Path(given.workflow_profile), own, Path(snakefile).parent / own)
    names = given.profile or [os.environ.get("SNAKEMAKE_PROFILE") or "none"]
    names += [str(place) for place in places if place.exists()][:1]
    found = (get_profile_dir(name) for name in names if name != "none")
    for file in (*config_files, *(place[1] for place in found if place)):
        read_yaml(file)
