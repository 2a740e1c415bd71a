"""The one patch of Snakemake, tested on Snakemake's own rate limiter."""

from types import SimpleNamespace

import pytest
from snakemake.cli import get_argument_parser
from snakemake.scheduling.job_scheduler import JobRateLimiter
from snakemake.settings.types import MaxJobsPerTimespan

from workflow.snakemake_patches import stop_rescheduling


def scheduler(limit):
    return SimpleNamespace(job_rate_limiter=JobRateLimiter(MaxJobsPerTimespan.parse_choice(limit)))


def test_the_default_limit_is_removed():
    patched = scheduler(get_argument_parser().get_default("max_jobs_per_timespan"))
    stop_rescheduling(patched)
    assert patched.job_rate_limiter is None


@pytest.mark.parametrize("limit", ["10/1s", "100/1m"])
def test_a_limit_of_the_user_stays(limit):
    patched = scheduler(limit)
    stop_rescheduling(patched)
    assert patched.job_rate_limiter is not None


def test_without_a_limit_nothing_changes():
    patched = SimpleNamespace(job_rate_limiter=None)
    stop_rescheduling(patched)
    assert patched.job_rate_limiter is None


@pytest.mark.parametrize("other", [SimpleNamespace(), SimpleNamespace(job_rate_limiter=object())])
def test_another_version_of_snakemake_raises_an_error(other):
    with pytest.raises(AttributeError, match=r"job_rate_limiter|rate limiter"):
        stop_rescheduling(other)
