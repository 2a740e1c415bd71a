import json
import sys
from pathlib import Path
from runpy import run_path

import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.evaluation import opening
from lexigraft.evaluation.opening import opened
from lexigraft.inference.vllm_model import VllmModel
from lexigraft.source.model import load_model
from lexigraft.training.store import save_cell
from tests.fake_vllm import LLM, install

SCRIPTS = Path(__file__).resolve().parent.parent.parent / "scripts"
SETTINGS = {"max_new_tokens": 4, "samples": 3}


@pytest.fixture
def cell(make_job, smollm2_folder_tiny, tmp_path, monkeypatch):
    """A cell with a changed matrix, where `make_job` looks."""
    monkeypatch.setenv("LEXIGRAFT_PRECISION", "float32")
    source = tmp_path / "source"
    source.mkdir()
    described = {"kind": "folder", "path": str(smollm2_folder_tiny), "revision": None}
    (source / "source.json").write_text(json.dumps(described))
    folder = Path(make_job("translation")["inputs"]["cell"])
    inputs = {"source": str(source), "tokenizer": str(source), "initialization": None}
    job = {"rule": "train", "inputs": inputs, "outputs": {"folder": str(folder)}, "settings": {}}
    job["cell"] = {"source": "tiny"}
    model = load_model(smollm2_folder_tiny, "float32")
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(30)
    save_cell(folder, model, ["model.embed_tokens.weight"], job=job)
    return folder


def evaluated(job) -> tuple[dict, list[dict]]:
    """The record and the predictions of a job."""
    Path(job["outputs"]["folder"]).mkdir(parents=True, exist_ok=True)
    run_path(str(SCRIPTS / "evaluate.py"))["stage"](job)
    lines = Path(job["outputs"]["predictions"]).read_text("utf-8").splitlines()
    record = json.loads(Path(job["outputs"]["record"]).read_text("utf-8"))
    return record, [json.loads(line) for line in lines]


def test_vllm_writes_what_transformers_writes_and_the_record_says_which(
    cell, make_job, monkeypatch
):
    record, rows = evaluated(make_job("translation", **SETTINGS))
    install(monkeypatch)
    job = make_job("translation", engine="vllm", **SETTINGS)
    other, same = evaluated(job)
    assert same == rows
    assert any(row["output"] for row in rows)
    assert (record["details"]["engine"], other["details"]["engine"]) == (
        "transformers",
        "vllm 0.30.0",
    )
    assert len(LLM.made) == 1
    left = {file.name for file in Path(job["outputs"]["folder"]).iterdir()}
    assert left == {"record.json", "predictions.jsonl"}


def test_the_export_is_there_only_while_it_is_needed(cell, make_job, monkeypatch):
    install(monkeypatch)
    job = make_job("translation", engine="vllm")
    exported = Path(job["outputs"]["folder"]) / "exported"
    with pytest.raises(KeyboardInterrupt), opened(job) as (model, _):
        assert isinstance(model, VllmModel)
        assert (exported / "model.safetensors").is_file()
        raise KeyboardInterrupt
    assert not exported.exists()


def test_nothing_is_exported_where_vllm_is_missing(cell, make_job, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    job = make_job("translation", engine="vllm")
    with pytest.raises(UserError, match="vLLM cannot be used here"), opened(job):
        pass
    assert not Path(job["outputs"]["folder"]).exists()


def dtype_of(kind: str, make_job) -> torch.dtype:
    with opened(make_job(kind)) as (model, _):
        return model.dtype


def test_kinds_that_train_on_examples_get_all_digits(cell, make_job, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", "bfloat16")
    assert dtype_of("tagging", make_job) == torch.float32
    assert dtype_of("translation", make_job) == torch.bfloat16


def test_on_a_cpu_texts_are_written_in_all_digits(cell, make_job, monkeypatch):
    monkeypatch.delenv("LEXIGRAFT_PRECISION")
    monkeypatch.setattr(opening, "device", lambda: torch.device("cpu"))
    monkeypatch.setattr(opening, "precision", lambda: torch.bfloat16)
    assert dtype_of("translation", make_job) == torch.float32
    assert dtype_of("perplexity", make_job) == torch.bfloat16
