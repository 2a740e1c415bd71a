"""The scripts of the rules, on real tokenizers and real text."""

import json
import runpy
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from lexigraft.job import carry_out

SCRIPTS = Path(__file__).parents[2] / "scripts"
NAMES = ("vocabulary", "card")


def run(rule, job):
    """What the script of a rule writes: its folder, `vocabulary.json` and `card.json`."""
    carry_out(runpy.run_path(str(SCRIPTS / f"{rule}.py"))["stage"], job)
    folder = Path(job["outputs"]["folder"])
    files = (json.loads((folder / f"{name}.json").read_text("utf-8")) for name in NAMES)
    return folder, *files


@pytest.fixture
def job(smollm2_folder_tiny, telugu, tmp_path):
    (tmp_path / "source").mkdir()
    source = {"kind": "folder", "path": str(smollm2_folder_tiny)}
    (tmp_path / "source" / "source.json").write_text(json.dumps(source))
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "train.txt").write_text("\n".join(telugu) + "\n", encoding="utf-8")
    (tmp_path / "corpus" / "english.txt").write_text("A sentence.\nAnother one\n", encoding="utf-8")
    return {
        "rule": "build_vocabulary",
        "settings": {
            "mode": "expand", "new_tokens": 60, "merges": "continued", "auxiliary_size": 1000,
        },
        "inputs": {"source": str(tmp_path / "source"), "corpus": str(tmp_path / "corpus")},
        "outputs": {"folder": str(tmp_path / "out")},
    }  # fmt: skip


def test_it_writes_a_tokenizer_its_description_and_its_card(job, smollm2_cut):
    folder, described, card = run("build_vocabulary", job)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) == described["size"] == len(smollm2_cut) + 60
    assert described["mode"] == "expand"
    assert card["new_tokens"] == 60
    assert card["unused_new_tokens"] == card["english_sentences_changed"] == 0
    assert card["marks"] == "joined"
    assert card["train_fertility_after"] < card["train_fertility_before"]
    assert set(card["files"]) >= {"tokenizer.json", "tokenizer_config.json", "vocabulary.json"}


def test_a_pruned_vocabulary_says_how_many_rows_it_saves(job, smollm2_cut, telugu):
    job["settings"] = {"mode": "prune", "prune": "never-used", "prune_english": True}
    folder, described, card = run("build_vocabulary", job)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) == described["size"] < described["source_size"] == len(smollm2_cut)
    assert described["rows_saved"] == card["rows_saved"] == len(smollm2_cut) - len(tokenizer)
    assert card["new_tokens"] == card["english_sentences_changed"] == 0
    assert card["train_fertility_after"] == card["train_fertility_before"]
    assert tokenizer.batch_decode(tokenizer(telugu)["input_ids"]) == telugu


def test_a_trained_vocabulary_lists_the_tokens_that_the_source_lacks(job, smollm2_cut):
    job["settings"] = {
        "mode": "replace",
        "family": "sentencepiece-unigram",
        "size": 600,
        "superwords": 0.0,
    }
    folder, described, card = run("build_vocabulary", job)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) == described["size"] == 600
    assert (described["mode"], described["family"]) == ("replace", "Unigram")
    assert described["source_size"] == len(smollm2_cut)
    new = {token["token"] for token in described["new_tokens"]}
    assert card["new_tokens"] == len(new) == 600 - card["shared_tokens"]
    # All that is special is the source's, every byte too, and Latin letters; Telugu words are not.
    assert not {"<|endoftext|>", "<|im_end|>", "<0xE0>", "a"} & new
    assert any("\u0c00" <= letter <= "\u0c7f" for token in new for letter in token)
    assert card["train_fertility_after"] < card["train_fertility_before"]
    assert set(card["files"]) >= {"tokenizer.json", "tokenizer.model", "vocabulary.json"}


def test_a_tokenizer_is_read_from_a_folder(job, smollm2_cut, mistral_tokenizer, tmp_path):
    mistral_tokenizer.save_pretrained(tmp_path / "other")
    job["settings"] = {"tokenizer": str(tmp_path / "other"), "revision": None}
    folder, described, card = run("take_vocabulary", job)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    # The token that begins the source's texts has no counterpart by name or role, so it is added.
    assert tokenizer.get_vocab() == mistral_tokenizer.get_vocab() | {"<|endoftext|>": 32_000}
    assert (described["family"], described["size"]) == ("byte-fallback BPE", 32_001)
    # "▁the" is "Ġthe", and the end of a text is the end of a text.
    new = {token["token"] for token in described["new_tokens"]}
    assert not {"▁the", "</s>", "<|endoftext|>"} & new
    assert 0.9 * len(smollm2_cut) < described["shared"] == card["shared_tokens"]
    assert card["commit"] is None
