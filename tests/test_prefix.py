"""Jobs say the same wherever results lie."""

import json

import pytest

from lexigraft.errors import UserError
from lexigraft.job import PREFIX, with_prefix, without_prefix


def text(job):
    return json.dumps(job, ensure_ascii=False)


def test_only_paths_below_the_prefix_lose_it_and_get_it_back(monkeypatch):
    job = {
        "folder": "/scratch/a/results/x",
        "list": ["/scratch/a/results/y", "/scratch/ab/z", "data/scratch/a/z"],
        "prefix": "/scratch/a",
    }
    short = without_prefix(text(job), "/scratch/a")
    assert json.loads(short) == {
        "folder": "$LEXIGRAFT_PREFIX/results/x",
        "list": ["$LEXIGRAFT_PREFIX/results/y", "/scratch/ab/z", "data/scratch/a/z"],
        "prefix": "/scratch/a",
    }
    monkeypatch.setenv(PREFIX, "/scratch/a")
    assert json.loads(with_prefix(short)) == job


def test_without_a_prefix_nothing_changes_and_nothing_is_asked_of_the_environment(monkeypatch):
    monkeypatch.delenv(PREFIX, raising=False)
    job = text({"folder": "results/x"})
    assert without_prefix(job, None) == job == with_prefix(job)


def test_a_job_that_needs_a_prefix_says_so_where_there_is_none(monkeypatch):
    monkeypatch.delenv(PREFIX, raising=False)
    with pytest.raises(UserError, match="LEXIGRAFT_PREFIX: not set"):
        with_prefix(without_prefix(text({"folder": "/a/results/x"}), "/a"))
