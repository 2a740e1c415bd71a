"""A repair of Snakemake's scheduler, which slows down with every job that it has finished.

Each time it looks for jobs, Snakemake 9.27 sets a timer that makes it look once more when the span
of its rate limit (by default 100 jobs a second) is over. That look sets a timer again, and each
finished job adds a look: after a thousand jobs it looks a thousand times a second, and takes a
core for itself.
"""

from typing import Any

# What `--max-jobs-per-timespan` is unless somebody says otherwise.
DEFAULT_JOBS, DEFAULT_SECONDS = 100, 1


def lift_default_rate_limit(scheduler: Any) -> None:
    """Take the default rate limit off, and its timers with it; a limit of the user's stays."""
    limiter = scheduler.job_rate_limiter
    if limiter and (limiter.max_jobs, limiter.timespan) == (DEFAULT_JOBS, DEFAULT_SECONDS):
        scheduler.job_rate_limiter = None
