"""A local run that is interrupted while it trains ends within seconds and can be resumed."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.workflow.conftest import copy_project

CELL = "tiny/telugu/expand-50/align"
TRAINED = f"results/training/{CELL}/short/seed-0"
LOG = f"results/logs/training/{CELL}/short/seed-0.log"
# An ordinary Python, whose jobs run in the one that is given first.
SNAKEMAKE = """
import sys
sys.executable, *sys.argv = sys.argv[1:2] + sys.argv[3:]
from snakemake.cli import main
main()
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, miniature):
    """A checkout whose next job is a training that takes hours."""
    checkout = copy_project(tmp_path_factory.mktemp("interrupted") / "project")
    checkout.config = miniature
    checkout.change(lambda config: config["strategies"]["short"].update(epochs=10_000))
    result = checkout.snakemake("--", f"results/initialization/{CELL}/all-seeds/card.json")
    assert result.returncode == 0, result.stdout + result.stderr
    return checkout


@pytest.mark.fault(
    "kill",
    "Ctrl-C or SIGTERM during training in a local run",
    "Snakemake and training end within seconds, with one line and without a traceback",
)
@pytest.mark.parametrize(
    ("send", "number"),
    [(os.killpg, signal.SIGINT), (os.kill, signal.SIGINT), (os.kill, signal.SIGTERM)],
    ids=["SIGINT to all", "SIGINT to Snakemake alone", "SIGTERM to Snakemake alone"],
)
def test_snakemake_and_its_training_end_within_seconds(prepared, send, number):
    """Each run starts where the one before it ended, so the folder is not left locked.

    The training is in a process group of its own, but its place in Snakemake's is taken by a
    process that passes signals on: see tests/preloaded_python.py. This needs an ordinary Python
    for Snakemake.
    """
    log = prepared.folder / LOG
    log.unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", SNAKEMAKE, *prepared.command("--", f"{TRAINED}/card.json")],
        cwd=prepared.folder,
        env=prepared.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    while not (log.exists() and "Loading weights" in log.read_text()):
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.2)
    sent = time.monotonic()
    send(process.pid, number)
    output, _ = process.communicate(timeout=60)  # which also waits for the training
    assert time.monotonic() - sent < 20
    assert process.returncode == 1
    assert "interrupted (SIGINT); run again to resume" in log.read_text()
    assert "Traceback" not in output + log.read_text()
    assert not (prepared.folder / TRAINED / "card.json").exists()
