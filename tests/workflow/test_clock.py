"""A clock that is set back costs no finished work."""

import asyncio
import inspect
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import snakemake.api  # noqa: F401 (its modules import each other, and begin here)
from snakemake.dag import DAG

from workflow.clock import date_after, forgive_clocks

HOUR = 3600 * 10**9


@pytest.fixture
def files(tmp_path):
    """Two inputs, and two outputs made now."""
    paths = {name: tmp_path / name for name in ("old", "new", "first", "second")}
    for path in paths.values():
        path.touch()
    return {name: str(path) for name, path in paths.items()}


def dated(file: str, hours: float) -> int:
    moment = time.time_ns() + int(hours * HOUR)
    os.utime(file, ns=(moment, moment))
    return moment


def time_of(file: str) -> int:
    return Path(file).stat().st_mtime_ns


def test_outputs_get_the_time_of_an_input_from_the_future(files, caplog):
    dated(files["old"], -1)
    tomorrow = dated(files["new"], 24)
    date_after([files["old"], files["new"]], [files["first"], files["second"]])
    assert {time_of(files[name]) for name in ("first", "second")} == {tomorrow}
    assert files["new"] in caplog.text


def test_outputs_that_are_newer_are_left_alone(files, caplog):
    dated(files["old"], -2)
    hour_ago = dated(files["first"], -1)
    date_after([files["old"]], [files["first"], "no-such-file"])
    assert time_of(files["first"]) == hour_ago
    assert not caplog.text


def test_snakemake_asks_for_it_after_each_job(files, monkeypatch):
    """The method that is replaced is the one that Snakemake calls, with these arguments."""
    original = DAG.check_output_mtime
    assert list(inspect.signature(original).parameters) == ["self", "job", "expanded_output"]
    monkeypatch.setattr(DAG, "check_output_mtime", original)
    dag = DAG.__new__(DAG)
    job = SimpleNamespace(input=[files["new"]], rule=None)
    forgive_clocks(DAG)
    tomorrow = dated(files["new"], 24)
    asyncio.run(dag.check_output_mtime(job, [files["first"]]))
    assert time_of(files["first"]) == tomorrow
