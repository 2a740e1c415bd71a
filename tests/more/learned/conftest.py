"""Tiny random checkpoints of the real packages, built in the metrics environment itself."""

import json
import os
import sys
from pathlib import Path
from runpy import run_path

import pytest

from lexigraft.job import carry_out
from tests import preloaded_python
from tests.conftest import REPOSITORY, run_command

# Fifteen seconds of a processor go by before a process has imported these.
PRELOADED = ("comet.models", "bleurt_pytorch", "pytorch_lightning")
TEXTS = [
    {"source": "Good morning", "output": "Καλημέρα", "reference": "Καλημέρα σας"},
    {"source": "The class begins", "output": "", "reference": "Το μάθημα αρχίζει"},
    {"source": 'He said "no"', "output": 'Είπε\u2028"όχι"', "reference": 'Είπε "όχι"\tναι'},
    {"source": "A new school", "output": "తెలుగు తరగతి", "reference": "Ένα νέο σχολείο στην πόλη"},
    # Beyond 512 tokens: what does not fit is cut, as the packages cut it.
    {"source": "Long " * 300, "output": "μεγάλο " * 200, "reference": "πολύ μεγάλο " * 200},
    {"source": "one two", "output": "ένα δύο τρία", "reference": "ένα δύο"},
    {"source": "Good morning", "output": "σχολείο", "reference": "Καλημέρα σας"},
]


@pytest.fixture(scope="session")
def metrics_python() -> str:
    """The metrics environment's Python; `make test-more` sees to it that there is one."""
    python = REPOSITORY / ".venv-metrics" / "bin" / "python"
    if not python.exists():
        if os.environ.get("LEXIGRAFT_METRICS") == "required":
            pytest.fail(f"{python} is missing: run `make metrics`")
        pytest.skip(f"{python} is missing: run `make metrics`, or `make test-more`, which does")
    return str(python)


@pytest.fixture(scope="session")
def warm_metrics(metrics_python) -> str:
    """The same Python, whose packages are imported already: see tests/preloaded_python.py."""
    return preloaded_python.python(metrics_python, PRELOADED)


@pytest.fixture(scope="session")
def tiny(warm_metrics, tmp_path_factory) -> Path:
    """A folder of checkpoints and of `expected.json`, what the packages themselves score."""
    folder = tmp_path_factory.mktemp("checkpoints")
    texts = folder / "texts.jsonl"
    texts.write_text("".join(json.dumps(row) + "\n" for row in TEXTS), "utf-8")
    program = Path(__file__).with_name("tiny_checkpoints.py")
    command = [warm_metrics, "-I", str(program), str(folder), str(texts)]
    result = run_command(command)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(scope="session")
def make_job(warm_metrics, tmp_path_factory):
    """The job of scoring a run of predictions, its metric prepared by the rule's own script."""

    def build(
        kind: str, checkpoint: Path, encoder: Path | None = None, python=warm_metrics, **options
    ):
        place = {
            "kind": kind,
            "checkpoint": str(checkpoint),
            "revision": None,
            "encoder": str(encoder) if encoder else None,
            "encoder_revision": None,
        }
        root = tmp_path_factory.mktemp("scored")
        prepared, run = root / "metric", root / "translation" / "run-0"
        run.parent.mkdir()
        carry_out(
            run_path(str(REPOSITORY / "scripts" / "prepare_metric.py"))["stage"],
            {
                "rule": "prepare_metric",
                "settings": place,
                "inputs": {"python": python},
                "outputs": {"folder": str(prepared)},
                "metric": "tiny",
                "state": "none",
            },
        )
        rows = [{"id": f"s{at}", **row} for at, row in enumerate(TEXTS)]
        run.mkdir()
        described = {"task": "translation", "kind": "translation", "run": 0}
        described["cell"] = {"source": "tiny", "seed": 0}
        (run / "record.json").write_text(json.dumps(described))
        (run / "predictions.jsonl").write_text(
            "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8"
        )
        settings = {"metric": kind, "uses_source": kind == "comet", "batch_size": 3}
        return {
            "rule": "score_predictions",
            "settings": {**place, **settings, **options},
            "inputs": {
                "predictions": [str(run / "predictions.jsonl")],
                "metric": str(prepared / "card.json"),
                "python": python,
            },
            "outputs": {"folder": str(root / "learned"), "records": str(root.parent)},
            "metric": "tiny",
            "cells": [[root.name, {"translation": 1}]],
        }

    return build


def record_of(job: dict, run: int = 0) -> dict:
    folder = Path(job["inputs"]["predictions"][run]).parent
    return json.loads((folder / "learned" / "tiny.json").read_text("utf-8"))


@pytest.fixture(scope="session")
def scored():
    """Run the stage of the rule's script on a job and read its record."""
    stage = run_path(str(REPOSITORY / "scripts" / "score_predictions.py"))["stage"]

    def run(job: dict) -> dict:
        stage(job)
        return record_of(job)

    return run


@pytest.fixture(scope="session")
def scored_by_process():
    """Run the rule's script on a job, as Snakemake does, and read its record."""

    def run(job: dict) -> dict:
        script = REPOSITORY / "scripts" / "score_predictions.py"
        command = [sys.executable, str(script), json.dumps(job)]
        result = run_command(command)
        assert result.returncode == 0, result.stderr
        return record_of(job)

    return run
