"""`make gpu-check` on a CPU: what it would record is on the page. tests/more rehearses it."""

import os
from types import SimpleNamespace

import pytest

from tests import preloaded_python
from tests.conftest import run_command
from workflow import pages, records


@pytest.fixture
def gpu():
    """The module; torch is imported with it."""
    from benchmarks import gpu

    return gpu


def run(*arguments):
    command = [preloaded_python.python(), "-m", "benchmarks.gpu", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(pages.ROOT)}
    return run_command(command, env=environment)


def test_without_a_gpu_it_says_so_in_one_line(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = run("training")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: no GPU is visible; --rehearse runs tiny models on the CPU"
    ]


def test_a_test_that_fails_is_a_result_and_a_problem(gpu, tmp_path, monkeypatch):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    file = tmp_path / "one" / "test_two.py"
    file.write_text("def test_well(): pass\n\ndef test_badly(): assert 1 == 2\n")
    rows = gpu.run_tests(file.parent)
    assert [row[:2] for row in rows] == [["test_well", "passed"], ["test_badly", "failed"]]
    monkeypatch.setattr(gpu, "_child", lambda *_, **__: {"rows": rows})
    [problem] = gpu.correctness(SimpleNamespace(rehearse=True)).problems
    assert problem.startswith("test_badly: ")
    file = tmp_path / "other" / "test_nothing.py"
    file.write_text("import nowhere_at_all\n")
    assert [row[1] for row in gpu.run_tests(file.parent)] == ["failed"]


def test_a_cell_that_ends_elsewhere_on_the_gpu_is_a_problem(gpu, monkeypatch):
    scores = iter([1.0, 1.011, 1.0, 1.009])
    columns = {"device": "x", "precision": "y", "seconds": 1.0, "before": 2.0}
    monkeypatch.setattr(gpu, "prepare", lambda *_: {})
    monkeypatch.setattr(gpu, "_child", lambda *_, **__: {**columns, "bits_per_byte": next(scores)})
    options = gpu.Options(rehearse=True, packages=None)
    assert gpu.cell(options).problems and not gpu.cell(options).problems


TOOK = {"speed": 8.0, "mib": 2048.0, "reserved_mib": 3072.0}
FULL, BROKEN = {"error": "OutOfMemoryError: CUDA out of memory."}, {"error": "ValueError: no"}


@pytest.mark.parametrize(
    ("ours", "script", "results", "problems"),
    [
        (TOOK, FULL, [[8.0, 2.0, 3.0, None, None, 1]], 0),
        (FULL, TOOK, [[None, None, None, 8.0, 2.0, 2]], 1),
        (BROKEN, TOOK, [], 1),
        (TOOK, BROKEN, [], 1),
    ],
)
def test_what_does_not_fit_is_a_result_and_any_other_error_is_none(
    gpu, ours, script, results, problems, monkeypatch
):
    monkeypatch.setattr(gpu, "TRAINED", gpu.TRAINED[1:2])
    monkeypatch.setattr(gpu, "_train", lambda who, *_: {"ours": ours, "script": script}[who])
    found = gpu.training(gpu.Options(rehearse=True, packages=None))
    assert [row[2:] for row in found.rows] == results
    assert len(found.problems) == problems


TABLES = {
    "correctness": [["test", "outcome"], ["test_well", "passed"], ["test_badly", "failed"]],
    "training": [
        ["model", "strategy", "tokens_per_second", "gibibytes", "reserved_gibibytes",
         "script_tokens_per_second", "script_gibibytes", "script_sequences"],
        ["llama-2-7b", "2x2ls-mtp-512", 8123.0, 31.25, 33.0, 4000.0, 62.5, 8],
        ["gemma-2-9b", "2x2ls-mtp-512", 5123.0, 61.25, 63.0, None, None, 1],
    ],
    "generation": [
        ["engine", "batch", "tokens_per_second"], ["lexigraft", 8, 331.0], ["vllm", 64, 4123.0]
    ],
    "cell": [
        ["device", "precision", "seconds", "before", "bits_per_byte"],
        ["NVIDIA H100", "bfloat16", 9.0, 3.25, 1.501], ["CPU", "float32", 99.0, 3.25, 1.502],
    ],
}  # fmt: skip


TABLE_OF = {part: f"gpu-{part}" for part in TABLES} | {"correctness": "gpu-failed"}


@pytest.fixture
def recorded(gpu, tmp_path, monkeypatch):
    """`recorded(part, …)`: the tables of the page after these parts were recorded in turn."""
    (tmp_path / "memory.json").write_bytes(records.record_path("memory").read_bytes())
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    monkeypatch.setattr(pages, "main", lambda: None)
    monkeypatch.setattr(gpu, "_child", lambda *_, **__: {"gpu": "NVIDIA H100", "cuda": "13.0"})
    versions = {"torch": "2.13.0+cu130", "transformers": "5.1.0", "peft": "0.21.2"}
    monkeypatch.setattr(gpu, "version", versions.get)

    def build(*parts):
        for part in parts:
            columns, *rows = TABLES[part]
            gpu.record(part, gpu.Found(columns, rows, []))
        return {part: pages.table(TABLE_OF[part]) for part in TABLES}

    return build


def test_each_part_replaces_its_own_entry(recorded, monkeypatch):
    tables = recorded(*TABLES)
    assert "`test_badly`" in tables["correctness"] and "test_well" not in tables["correctness"]
    assert "| vllm | 64 | 4,123 |" in tables["generation"]
    assert "| CPU | float32 | 99 | 3.250 | 1.502 |" in tables["cell"]
    monkeypatch.setitem(TABLES, "generation", [TABLES["generation"][0], ["lexigraft", 8, 7.0]])
    tables = recorded("generation")
    assert "| lexigraft | 8 | 7 |" in tables["generation"] and "vllm" not in tables["generation"]
    assert "`test_badly`" in tables["correctness"]
