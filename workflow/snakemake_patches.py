"""The one thing about Snakemake that no option changes.

Whenever a job ends, Snakemake 9.27 sets a timer that makes it look for jobs once more when the span
of its rate limit is over (by default one second), as long as any job is ready; that look sets a
timer again. After a thousand finished jobs it looks a thousand times a second and takes most of a
core for itself (benchmarks/planning.py). Upstream: snakemake/snakemake#3744.
"""

from typing import Any

from snakemake.common import __version__

# What `--max-jobs-per-timespan` is unless somebody says otherwise.
DEFAULT_LIMIT = (100, 1)


def stop_rescheduling(scheduler: Any) -> None:
    """Switch the default rate limit off, and its timers with it; a limit of the user's stays.

    Raises
    ------
    AttributeError
        This version of Snakemake has no such limiter: the repair is to be looked at again.
    """
    for name in ("max_jobs", "timespan"):
        limiter = scheduler.job_rate_limiter
        if limiter is not None and not hasattr(limiter, name):
            raise AttributeError(f"Snakemake {__version__}: its rate limiter has no {name}")
    if limiter is not None and (limiter.max_jobs, limiter.timespan) == DEFAULT_LIMIT:
        # None is what Snakemake itself uses where there is no limit, in dry runs.
        scheduler.job_rate_limiter = None
