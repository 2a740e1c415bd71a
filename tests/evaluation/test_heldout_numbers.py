"""Bits per byte have one value, in the learning curve and in the records of the same models."""

import json
from pathlib import Path

import pytest

from lexigraft.evaluation.evaluate import evaluate_cell
from lexigraft.training.train import train_cell
from lexigraft.training.training_log import TrainingLog
from tests.training import conftest as training

family, padded = training.family, training.padded
with_bos, without_bos = training.with_bos, training.without_bos
training_setup_in, training_setup = training.training_setup_in, training.training_setup

PHASE = {"length": 32, "learning_rate": 1e-2}
TRAINABLE = {
    "nothing": [],
    "embeddings, then a layer": [
        PHASE | {"trainable": ["embeddings", "head"], "share": 0.5},
        PHASE | {"trainable": [{"layers": [0]}], "share": 0.5},
    ],
    "lora": [PHASE | {"trainable": ["embeddings", "head", "lora"]}],
}


def measured(cell: Path, corpus: Path, folder: Path) -> dict[str, float]:
    """The figures of task perplexity for a cell or a checkpoint."""
    task = {
        "settings": {"kind": "perplexity", "heldout_sentences": 4, "english_sentences": 4},
        "language": "te", "language_name": "Telugu", "runs": 1, "seed": [0],
        "versions": {"stage": 1},
    }  # fmt: skip
    evaluate_cell(
        {
            "rule": "evaluate", "settings": {}, "cell": {"source": "tiny"},
            "inputs": {"cell": str(cell), "read": {"perplexity": {"corpus": str(corpus)}}},
            "outputs": {"folder": str(folder)}, "tasks": {"perplexity": task},
        }
    )  # fmt: skip
    return json.loads((folder / "perplexity" / "run-0" / "record.json").read_text())["metrics"]


@pytest.mark.parametrize(
    ("trainable", "precision"),
    [("nothing", "float32"), ("embeddings, then a layer", "bfloat16"), ("lora", "float32")],
)
def test_the_curve_ends_with_the_bits_per_byte_that_are_recorded(
    training_setup, english, tmp_path, monkeypatch, precision, trainable
):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", precision)
    place = training_setup(tied=False)
    (place.corpus / "english.txt").write_text("\n".join(english[:6]) + "\n")
    phases = TRAINABLE[trainable]
    shared = {"batch_sequences": 4, "epochs": 1, "checkpoints": 2 if phases else 1}
    job = place.job({**(shared if phases else {}), "phases": phases})
    train_cell(job)
    cell = Path(job["outputs"]["folder"])
    curve = TrainingLog(cell / "log.jsonl").lines("heldout")
    # Adapters are merged after training, so that sums are rounded otherwise.
    error = 1e-6 if trainable == "lora" else 1e-9
    points = {cell: curve[-1]}
    if phases:
        points[cell / "checkpoint-1"] = curve[1]
    for folder, point in points.items():
        found = measured(folder, place.corpus, tmp_path / folder.name)
        for figure in ("bits_per_byte", "english_bits_per_byte"):
            assert found[figure] == pytest.approx(point[figure], rel=error), (folder.name, figure)
