import json
from pathlib import Path
from runpy import run_path

SCRIPTS = Path(__file__).resolve().parent.parent.parent / "scripts"


def test_fragmentation_of_an_unchanged_vocabulary_is_measured_without_a_model(
    cell, make_job, tmp_path
):
    file = tmp_path / "evaluation" / "fragmentation" / "record.json"
    job = {
        "rule": "measure_fragmentation",
        "settings": {},
        "inputs": {
            "source": str(tmp_path / "source"),
            "tokenizer": str(tmp_path / "source"),
            "corpus": make_job("perplexity")["inputs"]["corpus"],
        },
        "outputs": {"folder": str(file.parent)},
        "cell": {"source": "tiny", "language": "el-kolibri", "vocabulary": "source"},
    }
    (tmp_path / "corpus" / "train.txt").write_text("ένα\n", "utf-8")
    run_path(str(SCRIPTS / "measure_fragmentation.py"))["stage"](job)
    record = json.loads(file.read_text("utf-8"))
    assert (record["source"], record["language"]) == ("tiny", "el-kolibri")
    assert record["metrics"]["english_sentences_changed"] == 0
    assert record["metrics"]["fertility"] == record["metrics"]["source_fertility"] > 1
