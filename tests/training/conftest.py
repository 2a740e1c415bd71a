"""A source, a corpus and jobs on them, small enough to train in seconds."""

import json
import shutil
from types import SimpleNamespace

import pytest

from tests.inference import conftest as inference

family, padded = inference.family, inference.padded
with_bos, without_bos = inference.with_bos, inference.without_bos
full_precision = inference.full_precision


@pytest.fixture(scope="session")
def training_setup_in(tiny_llama, without_bos, telugu):
    """`training_setup_in(folder)`: a training setup in a folder."""
    return lambda folder: _training_setup(folder / "results", tiny_llama, without_bos, telugu)


@pytest.fixture
def training_setup(training_setup_in, tmp_path):
    """`training_setup(tied=True)`: results with a source and a corpus, and jobs for cells."""
    return training_setup_in(tmp_path)


def _training_setup(results, tiny_llama, without_bos, telugu):
    def build(tied=True, tokenizer=without_bos, sentences=12, rows=320):
        source, corpus = results / "source" / "tiny", results / "corpus" / "te"
        if not source.exists():
            tiny_llama(rows, tied=tied).save_pretrained(source)
            tokenizer.save_pretrained(source)
            (source / "source.json").write_text(json.dumps({"kind": "folder", "path": "."}))
            corpus.mkdir(parents=True)
            (corpus / "train.txt").write_text("\n".join(telugu[:sentences]) + "\n")
            (corpus / "heldout.txt").write_text("\n".join(telugu[-10:]) + "\n")
            (corpus / "english.txt").touch()

        def job(settings, strategy="s", seed=0):
            names = ["tiny", "te", "source", "none", strategy, seed]
            axes = ["source", "language", "vocabulary", "initializer", "strategy", "seed"]
            cell = dict(zip(axes, names, strict=True))
            place = "/".join(map(str, names[:-1])) + f"/seed-{seed}"
            settings = {"curve": {"sentences": 4, "points": 1}, **settings}
            return {
                "rule": "train",
                "settings": settings,
                "inputs": {
                    "source": str(source),
                    "tokenizer": str(source),
                    "initialization": None,
                    "corpus": str(corpus),
                },
                "outputs": {"folder": str(results / "training" / place)},
                "cell": cell,
                "seed": ["study", "training", place],
                "versions": {"stage": 1},
            }

        return SimpleNamespace(results=results, source=source, corpus=corpus, job=job)

    return build


@pytest.fixture
def train(training_setup):
    """Train a cell of a small training setup from the start and return its folder."""
    from pathlib import Path

    from lexigraft.training.train import train_cell

    def run(settings, tied=True, **axes):
        job = training_setup(tied=tied).job(settings, **axes)
        shutil.rmtree(job["outputs"]["folder"], ignore_errors=True)
        train_cell(job)
        return Path(job["outputs"]["folder"])

    return run
