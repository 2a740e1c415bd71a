"""What the rules run: a benchmark is prepared, and a stored cell is scored without an export."""

import json
from pathlib import Path
from runpy import run_path

import pytest
import torch

from lexigraft.evaluation.evaluate import evaluate_cell
from lexigraft.evaluation.task_kinds import task_kind
from lexigraft.job import carry_out
from lexigraft.source.model import load_model
from lexigraft.source.tokenizer import load_tokenizer
from lexigraft.training.store import save_cell

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


@pytest.fixture
def choice(make_job, hub, tmp_path):
    """A job of XNLI in German and English whose benchmarks the script prepares, from `data`."""

    def build(data=str(hub)):
        job = make_job("multiple_choice")
        job["inputs"]["benchmarks"] = {}
        for test, name in (("german", "xnli_de"), ("english", "xnli_en")):
            folder = tmp_path / "benchmarks" / name
            folder.mkdir(parents=True)
            settings = {"task": name, "folder": "xnli", "data": data}
            prepare = {
                "rule": "prepare_benchmark", "settings": settings, "inputs": {},
                "outputs": {"folder": str(folder), "results": str(tmp_path)}, "state": "before",
            }  # fmt: skip
            carry_out(run_path(str(SCRIPTS / "prepare_benchmark.py"))["stage"], prepare)
            job["inputs"]["benchmarks"][test] = str(folder)
        Path(job["outputs"]["folder"]).mkdir(parents=True)
        return job

    return build


def job_of_cell(job: dict) -> dict:
    """The job whose first run is that of `job`."""
    name, own = job["task"], ("rule", "cell", "inputs", "outputs", "task", "run")
    task = {key: value for key, value in job.items() if key not in own}
    read = {key: path for key, path in job["inputs"].items() if key != "cell"}
    return {
        "rule": "evaluate",
        "cell": job["cell"],
        "settings": {},
        "inputs": {"cell": job["inputs"]["cell"], "read": {name: read}},
        "outputs": {"folder": str(Path(job["outputs"]["folder"]).parent.parent)},
        "tasks": {name: {**task, "runs": 1, "seed": job["seed"][:-1]}},
    }


def test_a_cell_is_scored_from_its_source_and_its_changed_tensors(
    choice, smollm2_folder_tiny, tmp_path, monkeypatch
):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", "float32")
    job, source = choice(), tmp_path / "source"
    source.mkdir()
    described = {"kind": "folder", "path": str(smollm2_folder_tiny), "revision": None}
    (source / "source.json").write_text(json.dumps(described))
    model = load_model(smollm2_folder_tiny, "float32")
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(20)
    inputs = {"source": str(source), "tokenizer": str(source), "initialization": None}
    cell = {"rule": "train", "inputs": inputs, "outputs": {}, "settings": {}}
    save_cell(job["inputs"]["cell"], model, ["model.embed_tokens.weight"], job=cell, read={})
    evaluate_cell(job_of_cell(job))
    rows = Path(job["outputs"]["predictions"]).read_text("utf-8")
    record = json.loads(Path(job["outputs"]["record"]).read_text("utf-8"))
    expected = task_kind("multiple_choice").evaluate(
        model, load_tokenizer(smollm2_folder_tiny), job
    )
    assert record["metrics"] == expected.metrics and record["details"] == expected.details
    assert rows == Path(job["outputs"]["predictions"]).read_text("utf-8")
    assert record["settings"] == {"kind": "multiple_choice"} and "document_start" not in record


def test_without_data_no_model_is_loaded(choice, tmp_path):
    job = choice(data=str(tmp_path / "nothing"))
    evaluate_cell(job_of_cell(job))
    record = json.loads(Path(job["outputs"]["record"]).read_text("utf-8"))
    # The folder of the cell has a card and no model.
    assert record["metrics"] == {} and record["kind"] == "multiple_choice"
    assert record["not_scored"].startswith("facebook/xnli (de) cannot be read: ")
    assert "; facebook/xnli (en) cannot be read: " in record["not_scored"]
