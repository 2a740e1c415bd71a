"""Patches of Snakemake, tested on Snakemake itself."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.cli import get_argument_parser
from snakemake.scheduling.job_scheduler import JobRateLimiter
from snakemake.settings.types import MaxJobsPerTimespan

from lexigraft import UserError
from workflow.snakemake_patches import check_yaml, stop_rescheduling


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


DOUBLED = "cores: 1\nconfig:\n  machine:\n    save_minutes: 1\n    save_minutes: 30\n"


@pytest.mark.bad_input(
    "config",
    "a key that a mapping has twice",
    "rejected with a message that names the file, the lines and the key",
)
@pytest.mark.parametrize("place", ["mine/config.yaml", "mine/config.v8+.yaml", "mine/profile.yaml"])
@pytest.mark.parametrize(
    ("folder", "arguments"),
    [
        (".", ["--profile", "mine"]),
        (".", ["-n", "--profile=./mine", "--cores", "1"]),
        (".", ["--workflow-profile", "mine"]),
        ("profiles", ["--workflow-profile", "mine"]),
        ("project/profiles", ["--workflow-profile=mine"]),
    ],
)
def test_a_key_that_is_doubled_in_a_profile_is_named(
    tmp_path, monkeypatch, place, folder, arguments
):
    monkeypatch.chdir(tmp_path)
    file = Path(folder, place)
    file.parent.mkdir(parents=True)
    file.write_text(DOUBLED)
    check_yaml([], ["--cores", "1"], "project/Snakefile")
    with pytest.raises(UserError, match="line 5: the key 'save_minutes' is already given in line"):
        check_yaml([], arguments, "project/Snakefile")


def test_snakemake_refuses_doubled_keys_of_its_config_and_its_default_profile(checkout):
    study = checkout.folder / "study.yaml"
    good = study.read_text(encoding="utf-8")
    study.write_text(good + "report: {items: []}\n", encoding="utf-8")
    refused = checkout.snakemake("-n")
    assert refused.returncode != 0 and "the key 'report' is already given" in refused.stdout
    study.write_text(good, encoding="utf-8")
    (checkout.folder / "profiles/default/config.yaml").write_text("quiet: host\nquiet: host\n")
    assert "default/config.yaml: line 2: the key 'quiet'" in checkout.snakemake("-n").stdout
