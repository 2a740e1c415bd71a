"""`make gpu-check`, rehearsed on a CPU."""

from tests.workflow.test_gpu_check import run
from workflow.records import RESULTS


def test_every_part_runs_on_the_cpu_with_tiny_models_and_records_nothing():
    before = sorted(RESULTS.iterdir())
    done = run("--rehearse")
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    assert {row[0] for row in rows} == {"correctness", "training", "generation", "cell"}
    assert len([row for row in rows if row[0] == "correctness"]) > 20
    assert not any("None" in row for row in rows)
    assert sorted(RESULTS.iterdir()) == before
