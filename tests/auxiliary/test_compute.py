"""The stage that computes vectors, on a real tokenizer and real text."""

import json
from pathlib import Path

import numpy as np
import pytest

from lexigraft.auxiliary.compute import compute_auxiliary
from lexigraft.auxiliary.token_vectors import load_vectors
from lexigraft.job import carry_out

INPUTS = {
    "fasttext": lambda folder: {"corpus": str(folder / "corpus")},
    "glove": lambda folder: {"corpus": str(folder / "corpus")},
    "word-vectors": lambda folder: {"word_vectors": str(folder / "words.vec")},
}


@pytest.fixture
def job(tmp_path, mistral_tokenizer, greek):
    mistral_tokenizer.save_pretrained(tmp_path / "vocabulary")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "train.txt").write_text("\n".join(greek) + "\n", encoding="utf-8")
    (tmp_path / "words.vec").write_text("2 3\nthe 1 2 3\nof 4 5 6\n", encoding="utf-8")

    def build(kind, seed=0, **settings):
        return {
            "rule": "compute_vectors",
            "settings": {"kind": kind, **settings},
            "inputs": {"tokenizer": str(tmp_path / "vocabulary"), **INPUTS[kind](tmp_path)},
            "outputs": {"folder": str(tmp_path / "out")},
            "seed": [seed, "auxiliary", "te"],
        }

    return build


def run(job):
    carry_out(compute_auxiliary, job)
    folder = Path(job["outputs"]["folder"])
    return load_vectors(folder), json.loads((folder / "card.json").read_text())


def test_fasttext_vectors_are_stored_with_settings_and_counts(job, fasttext):
    settings = {"dimensions": 6, "minimum_count": 5}
    found, card = run(job("fasttext", **settings))
    assert found.vectors.shape == (card["tokens_with_vector"], 6)
    assert card["tokens"] == 32_000
    assert card["job"]["settings"]["minimum_count"] == 5
    assert card["versions"]["fasttext-wheel"]
    assert list(card["files"]) == ["vectors.safetensors"]


def test_word_vectors_are_stored_with_the_checksum_of_their_file(job):
    found, card = run(job("word-vectors", unlisted_words=False))
    assert card["tokens_with_vector"] == len(found.tokens) >= 2
    assert np.isin(found.vectors[:, 0], (1, 4)).all()
    assert len(card["word_vectors"]["sha256"]) == 64


def test_the_tokenizer_of_a_prepared_source_is_found(job, tmp_path):
    settings = {"dimensions": 4, "minimum_count": 20, "epochs": 1}
    found, _ = run(job("glove", **settings))
    pointing = job("glove", **settings)
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "source.json").write_text(json.dumps({"path": "../vocabulary"}))
    (tmp_path / "vocabulary" / "config.json").write_text("{}")
    pointing["inputs"]["tokenizer"] = str(tmp_path / "source")
    again, _ = run(pointing)
    assert np.array_equal(found.tokens, again.tokens)
    assert np.array_equal(found.vectors, again.vectors)


def test_the_same_job_writes_the_same_bytes_and_another_seed_others(job, fasttext):
    files = []
    for seed in (1, 1, 2):
        found = job("fasttext", seed, dimensions=4, minimum_count=20)
        run(found)
        file = Path(found["outputs"]["folder"]) / "vectors.safetensors"
        files.append(file.read_bytes())
    assert files[0] == files[1] != files[2]
