import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from lexigraft.auxiliary.token_vectors import TokenVectors, save_vectors
from lexigraft.corpus.sample_file import ENGLISH, translation_prompt, write_samples
from lexigraft.initialization.registry import declaration, methods
from lexigraft.initialization.storage import load_initialization
from lexigraft.job import carry_out
from lexigraft.source.preparation import prepare_source
from lexigraft.usage import peak_resident_bytes

SCRIPT = Path(__file__).parents[2] / "scripts" / "initialize.py"


@pytest.fixture
def job(tmp_path, byte_level, tiny_llama):
    """A job on a small untied source with two padding rows."""
    source, target = byte_level([("a", "b")]), byte_level([("a", "b"), ("ab", "c"), ("d", "e")])
    tiny_llama(len(source) + 2, tied=False).save_pretrained(tmp_path / "model")
    source.save_pretrained(tmp_path / "model")
    target.save_pretrained(tmp_path / "vocabulary")
    prepare_source({"folder": str(tmp_path / "model")}, tmp_path / "source")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "train.txt").write_text("abc\nab abc\n")

    vectors = np.ones((3, 2), np.float32)
    ids = np.array([target.get_vocab()[token] for token in ("a", "b", "abc")])
    for role in ("target", "source", "plm"):
        in_role = ids[:2] if role == "source" else ids
        save_vectors(TokenVectors(in_role, vectors[: len(in_role)]), tmp_path / role)

    (tmp_path / "words.txt").write_text("x\tabc\n")
    pair = [(translation_prompt(ENGLISH, "None", "x"), " abc")]
    (samples,) = write_samples(tmp_path, pair)
    texts = {
        "dictionary": {"dictionaries": [str(tmp_path / "words.txt")]},
        "parallel": {"samples": str(tmp_path / samples)},
    }

    def build(method, seed=0, **options):
        needed = declaration(method).needs
        return {
            "rule": "initialize",
            "settings": {"method": method, "options": options},
            "inputs": {
                "source": str(tmp_path / "source"),
                "tokenizer": str(tmp_path / "vocabulary"),
                "corpus": str(tmp_path / "corpus"),
                "auxiliary": {role: str(tmp_path / role) for role in needed if role not in texts},
                **{key: one for role in needed for key, one in texts.get(role, {}).items()},
            },
            "outputs": {"folder": str(tmp_path / "out")},
            "seed": ["study", "initialization", f"seed-{seed}"],
        }

    return build


def run(job):
    carry_out(runpy.run_path(str(SCRIPT))["stage"], job)
    folder = Path(job["outputs"]["folder"])
    return load_initialization(folder), json.loads((folder / "card.json").read_text())


# zett needs a hypernetwork, see methods/test_zett.py.
@pytest.mark.parametrize("method", [name for name in methods() if name != "zett"])
def test_every_method_is_stored_for_both_matrices_and_their_padding(job, method):
    loaded, card = run(job(method))
    assert loaded.n_source == loaded.n_target == 260
    assert loaded.new_ids.tolist() == [258, 259]
    for which in ("input", "output"):
        assert loaded.apply(np.ones((260, 32), np.float32), which).shape == (260, 32)
    assert card["statistics"]["new_tokens"] == 2


def test_the_card_counts_fallbacks_and_shows_examples(job):
    _, card = run(job("align"))
    assert card["fallbacks"] == 1
    assert card["fallback_tokens"] == ["de"]
    assert card["examples"][0] == {
        "token": "abc", "text": "abc", "parts": [["c", 0.5], ["ab", 0.5]], "more": 0,
    }  # fmt: skip
    assert card["statistics"]["sentences"] == 2
    assert list(card["files"]) == ["fallbacks.json", "recipe.npz"]


def test_the_same_job_writes_the_same_bytes_and_another_seed_others(job):
    files = []
    for seed in (1, 1, 2):
        run(job("random", seed=seed))
        files.append((Path(job("random")["outputs"]["folder"]) / "rows.safetensors").read_bytes())
    assert files[0] == files[1] != files[2]


def test_the_time_on_the_card_includes_training_the_vectors(job):
    one = job("unifyvocab")
    for role, seconds in (("target", 1000), ("source", 200)):
        card = Path(one["inputs"]["auxiliary"][role], "card.json")
        card.write_text(json.dumps({"files": {}, "seconds": seconds}))
    _, card = run(one)
    assert 1200 < card["seconds"] < 1300
    assert 0 <= card["peak_memory_bytes"] < peak_resident_bytes() / 2  # without what it imports
    assert run(job("mean"))[1]["seconds"] < 100
