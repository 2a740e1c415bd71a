"""The repairs of Snakemake's scheduler, the first on the limiter that Snakemake really makes."""

from types import SimpleNamespace

import pytest
from snakemake.cli import get_argument_parser
from snakemake.scheduling.job_scheduler import JobRateLimiter
from snakemake.settings.types import MaxJobsPerTimespan

from workflow.scheduling import go_on_after_failures, lift_default_rate_limit


def scheduler(limit):
    return SimpleNamespace(job_rate_limiter=JobRateLimiter(MaxJobsPerTimespan.parse_choice(limit)))


def test_the_default_limit_goes():
    made = scheduler(get_argument_parser().get_default("max_jobs_per_timespan"))
    lift_default_rate_limit(made)
    assert made.job_rate_limiter is None


@pytest.mark.parametrize("limit", ["10/1s", "100/1m"])
def test_a_limit_of_the_users_stays(limit):
    made = scheduler(limit)
    lift_default_rate_limit(made)
    assert made.job_rate_limiter is not None


def test_without_a_limit_nothing_is_done():
    made = SimpleNamespace(job_rate_limiter=None)
    lift_default_rate_limit(made)
    assert made.job_rate_limiter is None


def test_a_scheduler_goes_on_after_failures_whatever_it_was_told():
    class Scheduler:
        def __init__(self):
            self.keepgoing = False

    go_on_after_failures(Scheduler)
    assert Scheduler().keepgoing
