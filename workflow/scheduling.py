"""Two repairs of Snakemake's scheduler.

It slows down with every job that it has finished. Each time it looks for jobs, Snakemake 9.27 sets
a timer that makes it look once more when the span of its rate limit (by default 100 jobs a second)
is over. That look sets a timer again, and each finished job adds a look: after a thousand jobs it
looks a thousand times a second, and takes a core for itself.

And what is sent to a cluster as a group is run by a Snakemake that is not told to go on after a
failure, though the one that sent it was (`--keep-going`).
"""

from typing import Any

# What `--max-jobs-per-timespan` is unless somebody says otherwise.
DEFAULT_JOBS, DEFAULT_SECONDS = 100, 1


def lift_default_rate_limit(scheduler: Any) -> None:
    """Take the default rate limit off, and its timers with it; a limit of the user's stays."""
    limiter = scheduler.job_rate_limiter
    if limiter and (limiter.max_jobs, limiter.timespan) == (DEFAULT_JOBS, DEFAULT_SECONDS):
        scheduler.job_rate_limiter = None


def go_on_after_failures(scheduler_class: Any) -> None:
    """Have the schedulers of a class start what they still can when a job has failed."""
    scheduler_class.keepgoing = property(lambda _: True, lambda *_: None)
