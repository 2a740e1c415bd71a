"""Initializers that read more than tokenizers and text: one run of the real Snakefile for all."""

import json
from copy import deepcopy

import pytest

from tests.conftest import first_merges
from tests.workflow.conftest import Checkout, copy_project

EXPANDED = "results/initialization/tiny/telugu/expand-50"
FITTED = {
    "wechsel": f"{EXPANDED}/small-wechsel/all-seeds",
    "unifyvocab": f"{EXPANDED}/small-unifyvocab/all-seeds",
    "cw2v": f"{EXPANDED}/small-cw2v/seed-0",
    "distill": f"{EXPANDED}/small-distill/seed-0",
    "omp": "results/initialization/tiny/telugu/own/small-omp/all-seeds",
}
ALIGNED = "results/evaluation/tiny/telugu/expand-50/align/alignment/all-seeds"


@pytest.fixture(scope="module")
def plm(tmp_path_factory, mistral_tokenizer) -> tuple[str, int]:
    """A folder with a random BERT of real tokens, and how many these are."""
    from transformers import BertConfig, BertModel

    folder, tokenizer = (
        str(tmp_path_factory.mktemp("models") / "bert"),
        first_merges(mistral_tokenizer),
    )
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    settings = BertConfig(vocab_size=len(tokenizer), intermediate_size=8, **sizes)
    BertModel(settings).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder, len(tokenizer)


@pytest.fixture(scope="module")
def config(miniature, word_files, plm) -> dict:
    """The miniature with untrained Telugu cells of methods that read more, and what they read."""
    config = deepcopy(miniature)
    config["languages"]["telugu"] |= {**word_files, "plms": {"bert": {"model": plm[0]}}}
    config["vocabularies"] = {"own": {"mode": "replace", "plm": "bert"}}
    listed = {"unlisted_words": False}
    glove = {"kind": "glove", "dimensions": 4, "epochs": 1, "minimum_count": 2, "window": 3}
    config["auxiliary"] = {
        "english": {"base": "english-word-vectors", **listed},
        "aligned": {"base": "aligned-word-vectors", **listed},
        "small": glove,
    }
    both = {"target": "small", "source": "small"}
    small = {"rank": 4, "epochs": 1, "window": 2, "learning_rate": 0.1}
    config["initializers"] = {
        "small-wechsel": {
            "base": "wechsel",
            "auxiliary": {"target": "aligned", "source": "english"},
        },
        "small-unifyvocab": {"base": "unifyvocab", "auxiliary": both, "options": {"anchors": 20}},
        "small-cw2v": {"base": "cw2v", "options": small, "dictionary": True},
        "small-distill": {"base": "distill", "options": {"snippets": 2, "length": 10}},
        "small-omp": {"base": "omp", "auxiliary": {"plm": "plm-bert"}},
    }
    cells = {**config["cells"][1], "strategies": ["none"]}
    names = ["align", "small-wechsel", "small-unifyvocab", "small-cw2v", "small-distill"]
    config["cells"] = [
        {**cells, "initializers": names},
        {**cells, "vocabularies": ["own"], "initializers": ["small-omp"]},
    ]
    config["alignment"] = {"sentences": 5}
    config["report"] = {"items": ["results", "alignment"], "fonts": None}
    return {**config, "run_tasks": {"perplexity": {}}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, config) -> Checkout:
    """A checkout in which every initializer is fitted, and how align aligns is measured."""
    checkout = copy_project(tmp_path_factory.mktemp("methods") / "project")
    checkout.config = config
    cards = (f"{folder}/card.json" for folder in FITTED.values())
    result = checkout.snakemake("--", *cards, f"{ALIGNED}/card.json")
    assert result.returncode == 0, result.stdout + result.stderr
    return checkout


@pytest.fixture
def card(finished):
    """The card in a folder of the study."""

    def read(folder: str) -> dict:
        return json.loads((finished.folder / folder / "card.json").read_text(encoding="utf-8"))

    return read


def test_word_vectors_are_aligned_by_the_dictionary_and_listed(card):
    auxiliaries = card(FITTED["wechsel"])["job"]["inputs"]["auxiliary"]
    aligned, english = card(auxiliaries["target"]), card(auxiliaries["source"])
    # Of four pairs two have a vector on either side.
    assert (aligned["pairs"], aligned["pairs_used"]) == (4, 2)
    assert english["tokens"] + 50 == aligned["tokens"]
    assert aligned["dictionary"]["sha256"] != english["word_vectors"]["sha256"]
    assert card(FITTED["wechsel"])["statistics"]["share_fallback"] < 1


def test_a_model_of_the_language_provides_tokenizer_and_embeddings(card, plm):
    vectors = card("results/auxiliary/tiny/telugu/own/plm-bert")
    assert vectors["tokens_with_vector"] == plm[1]
    assert card(FITTED["omp"])["statistics"]["share_recipe"] > 0.5


def test_auxiliaries_of_the_source_use_the_source_tokenizer(card):
    found, sizes = card(FITTED["unifyvocab"]), {}
    for role, vocabulary in (("target", "expand-50"), ("source", "source")):
        folder = f"results/auxiliary/tiny/telugu/{vocabulary}/small"
        assert found["job"]["inputs"]["auxiliary"][role] == folder
        sizes[role] = card(folder)["tokens"]
    assert sizes["target"] == sizes["source"] + 50
    assert found["statistics"]["anchors"] == 20


def test_a_method_gets_the_matrices_and_the_dictionary(card, word_files):
    cw2v = card(FITTED["cw2v"])
    assert cw2v["job"]["inputs"]["dictionaries"] == [word_files["dictionary"]]
    assert "recipes.npz" in cw2v["files"]
    assert cw2v["statistics"]["loss_after"] < cw2v["statistics"]["loss_before"]


def test_a_method_gets_the_model(card):
    distill = card(FITTED["distill"])
    assert "rows.safetensors" in distill["files"]
    assert distill["statistics"]["snippets"] > 0


def test_the_rule_makes_the_record_of_alignment_and_the_report_waits_for_the_others(finished):
    found = json.loads((finished.folder / ALIGNED / "record.json").read_text())
    assert found["details"]["sentences"] == 5
    assert 0 < found["metrics"]["bleu_1"] <= 100
    assert {job for job in finished.planned() if "aligns" in job} == {
        "Measuring how small-wechsel aligns telugu expand-50 (all-seeds)",
        "Measuring how small-unifyvocab aligns telugu expand-50 (all-seeds)",
        "Measuring how small-cw2v aligns telugu expand-50 (seed-0)",
        "Measuring how small-distill aligns telugu expand-50 (seed-0)",
        "Measuring how small-omp aligns telugu own (all-seeds)",
    }
