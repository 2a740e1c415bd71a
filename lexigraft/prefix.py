"""Jobs say the same wherever a study's results lie: paths below its prefix are written without it.

What Snakemake compares is the text of a job. So results that move stay what they are.
"""

import os

VARIABLE = "LEXIGRAFT_PREFIX"
_MARK = f'"${VARIABLE}/'  # how a path below the prefix begins, inside JSON


def without_prefix(job: str, prefix: str | None) -> str:
    """A job's JSON text with the prefix left out of its paths; as it is where there is none."""
    return job.replace(f'"{prefix}/', _MARK) if prefix else job


def with_prefix(job: str) -> str:
    """The reverse, by the environment variable that the workflow sets for its jobs."""
    return job.replace(_MARK, f'"{os.environ[VARIABLE]}/') if _MARK in job else job
