import json
import math
from pathlib import Path
from runpy import run_path

import pytest

from lexigraft.source.model import load_model
from lexigraft.training.store import save_cell

SCRIPTS = Path(__file__).resolve().parent.parent.parent / "scripts"


@pytest.fixture
def cell(make_job, smollm2_folder_tiny, tmp_path):
    """An untrained cell of a random model with SmolLM2's tokenizer, where `make_job` looks."""
    source = tmp_path / "source"
    source.mkdir()
    described = {"kind": "folder", "path": str(smollm2_folder_tiny), "revision": None}
    (source / "source.json").write_text(json.dumps(described))
    folder = Path(make_job("perplexity")["inputs"]["cell"])
    inputs = {"source": str(source), "tokenizer": str(source), "initialization": None}
    job = {"rule": "train", "inputs": inputs, "outputs": {"folder": str(folder)}, "settings": {}}
    save_cell(folder, load_model(smollm2_folder_tiny, "float32"), [], job=job)
    return folder


@pytest.mark.parametrize(
    ("kind", "settings", "metric"),
    [
        ("perplexity", {}, "bits_per_byte"),
        ("perplexity", {"window": 8}, "perplexity"),
        ("translation", {"max_new_tokens": 3, "samples": 2}, "chrf"),
        ("summarization", {"max_new_tokens": 3, "samples": 2}, "rouge_l"),
        ("speed", {"batch_sizes": [2], "prompts": 2, "new_tokens": 3}, "tokens_per_second_batch_2"),
        ("greedy_agreement", {"prompt_tokens": 3, "max_new_tokens": 3}, "greedy_agreement"),
    ],
)
def test_each_task_writes_a_record_of_a_stored_cell(
    cell, make_job, monkeypatch, kind, settings, metric
):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", "float32")
    job = make_job(kind, **settings)
    run_path(str(SCRIPTS / "evaluate.py"))["stage"](job)
    record = json.loads(Path(job["outputs"]["record"]).read_text("utf-8"))
    assert math.isfinite(record["metrics"][metric])
    assert (record["kind"], record["cell"]) == (kind, job["cell"])


def test_fragmentation_of_an_unchanged_vocabulary_is_measured_without_a_model(
    cell, make_job, tmp_path
):
    file = tmp_path / "evaluation" / "fragmentation" / "record.json"
    job = {
        "settings": {},
        "inputs": {
            "source": str(tmp_path / "source"),
            "tokenizer": str(tmp_path / "source"),
            "corpus": make_job("perplexity")["inputs"]["corpus"],
        },
        "outputs": {"folder": str(file.parent), "file": str(file)},
        "cell": {"source": "tiny", "language": "el-kolibri", "vocabulary": "source"},
    }
    (tmp_path / "corpus" / "train.txt").write_text("ένα\n", "utf-8")
    run_path(str(SCRIPTS / "measure_fragmentation.py"))["stage"](job)
    record = json.loads(file.read_text("utf-8"))
    assert (record["source"], record["language"]) == ("tiny", "el-kolibri")
    assert record["metrics"]["english_sentences_changed"] == 0
    assert record["metrics"]["fertility"] == record["metrics"]["source_fertility"] > 1
