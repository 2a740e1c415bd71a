"""A vocabulary that replaces the source's, trained on a group of languages: from text to report."""

import json
from copy import deepcopy
from pathlib import Path

import pytest

from lexigraft import load_cell
from lexigraft.corpus.mixture import read_part
from tests.workflow.conftest import Checkout, copy_project, refused
from tests.workflow.plan import Plan
from workflow.config.registries import load_registries, resolve

CELL = "tiny/both/replaced/mean/short/seed-0"


@pytest.fixture(scope="session")
def config(miniature, smollm2_folder_tiny) -> dict:
    """The miniature with its languages as a group, and vocabularies that replace the source's."""
    config = deepcopy(miniature)
    config["languages"]["both"] = {
        "name": "Telugu and Greek",
        "train_sentences": None,
        "group": {"members": ["telugu", "greek"], "shares": {"telugu": 0.4}},
    }
    config["vocabularies"] = {
        "replaced": {"mode": "replace", "family": "sentencepiece-bpe", "size": 600},
        "taken": {"mode": "replace", "tokenizer": str(smollm2_folder_tiny)},
    }
    cells = {
        "sources": ["tiny"], "languages": ["both"], "vocabularies": ["replaced"],
        "initializers": ["mean"], "strategies": ["short"],
    }  # fmt: skip
    report = {"fonts": None, "items": ["results"]}
    return {**config, "cells": [cells], "run_tasks": {"perplexity": {}}, "report": report}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, config) -> Checkout:
    """The study, run by the real Snakefile."""
    checkout = copy_project(tmp_path_factory.mktemp("replaced") / "project")
    checkout.config = config
    result = checkout.snakemake()
    assert result.returncode == 0, result.stdout + result.stderr
    return checkout


def read(finished: Checkout, place: str) -> dict:
    return json.loads((finished.folder / "results" / place).read_text(encoding="utf-8"))


def test_the_training_text_is_mixed_by_the_shares(finished):
    members = read(finished, "corpus/both/card.json")["members"]
    assert {name: one["share"] for name, one in members.items()} == pytest.approx(
        {"telugu": 0.4, "greek": 0.6}
    )
    corpus = finished.folder / "results/corpus/both"
    for name, one in members.items():
        text = (corpus / "members" / name / "train.txt").read_text("utf-8")
        assert text.count("\n") == one["train_sentences"]
    train = list(read_part(corpus))
    telugu = [any("\u0c00" <= letter <= "\u0c7f" for letter in line) for line in train]
    characters = sum(len(line) for line, own in zip(train, telugu, strict=True) if own)
    assert characters == pytest.approx(0.4 * sum(map(len, train)), abs=max(map(len, train)))


def test_the_vocabulary_lists_what_is_new_by_id(finished):
    described = read(finished, "vocabulary/tiny/both/replaced/vocabulary.json")
    assert (described["mode"], described["family"]) == ("replace", "byte-fallback BPE")
    assert described["size"] == described["shared"] + len(described["new_tokens"]) == 600
    texts = {token["text"] for token in described["new_tokens"]}
    assert any("\u0c00" <= letter <= "\u0c7f" for text in texts for letter in text)
    assert "a" not in texts


def test_the_cell_has_a_matrix_of_the_new_size_and_the_new_special_ids(finished):
    model, tokenizer = load_cell(finished.folder / "results/training" / CELL)
    assert model.get_input_embeddings().weight.shape[0] == len(tokenizer) == 600
    assert model.config.vocab_size == 600
    assert model.config.eos_token_id == tokenizer.eos_token_id < 600


def test_held_out_text_is_scored_for_each_member(finished):
    metrics = read(finished, f"evaluation/{CELL}/perplexity/run-0/record.json")["metrics"]
    assert metrics["bytes"] == metrics["bytes_telugu"] + metrics["bytes_greek"]
    bits = [metrics[f"bits_per_byte_{name}"] for name in ("telugu", "greek")]
    assert min(bits) < metrics["bits_per_byte"] < max(bits)


def test_fragmentation_counts_new_tokens_wherever_their_ids_are(finished):
    record = read(finished, "evaluation/tiny/both/replaced/fragmentation/record.json")
    described = read(finished, "vocabulary/tiny/both/replaced/vocabulary.json")
    assert record["metrics"]["new_tokens"] == len(described["new_tokens"])
    assert 0.3 < record["metrics"]["new_token_share_input"] < 1
    assert set(record["members"]) == {"telugu", "greek"}
    for metrics in record["members"].values():
        assert metrics["tokens_per_sentence"] < metrics["source_tokens_per_sentence"]


def test_a_finished_study_plans_nothing_and_another_share_mixes_again(finished):
    assert finished.planned() == set()
    config = finished.config
    finished.change(lambda study: study["languages"]["both"]["group"]["shares"].update(telugu=0.5))
    planned = finished.planned()
    finished.config = config
    assert "Building vocabulary replaced of tiny for both" in planned
    prepared = {job for job in planned if job.startswith("Preparing")}
    assert prepared == {"Preparing the texts of both"}


def with_group(config, **changes) -> dict:
    group = {**config["languages"]["both"]["group"], **changes}
    return {**config["languages"], "both": {**config["languages"]["both"], "group": group}}


@pytest.mark.bad_input(
    "config", "an invalid group of languages", "rejected with a message that names the group"
)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"members": ["telugu", "grek"]}, "group.members: 'grek' is not known; did you mean 'gre"),
        ({"members": ["telugu", "both"]}, "group.members: 'both' is itself a group"),
        ({"shares": {"telugu": 0.5, "greek": 0.4}}, "group.shares: they add up to 0.9, not 1"),
        ({"shares": {"swahili": 0.5}}, "group.shares: 'swahili' is not a member"),
    ],
)
def test_a_group_that_cannot_be_is_refused(changes, message, config):
    found = refused(deepcopy(config) | {"languages": with_group(config, **changes)})
    assert f"languages.both.{message}" in found


@pytest.mark.bad_input(
    "config", "invalid settings of a vocabulary", "rejected with a message that names the key"
)
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"mode": "replace"}, "vocabularies.replaced: needs mode: expand with new_tokens; or"),
        ({"mode": "replace", "family": "bpe", "size": 9}, "vocabularies.replaced"),
        ({"mode": "expand"}, "vocabularies.replaced: 'new_tokens' is missing"),
        ({"mode": "expand", "new_tokens": 5, "marks": "join"}, "replaced.marks: 'join' is not one"),
        (
            {"mode": "expand", "new_tokens": 5, "merges": "append", "english_change": 0.1},
            "vocabularies.replaced.english_change: needs merges: continued, not append",
        ),
        (
            {"mode": "replace", "family": "sentencepiece-bpe", "size": 9, "superwords": 0.1},
            "vocabularies.replaced.superwords: needs family: byte-level-bpe, not sentencepiece-bpe",
        ),
        (
            {"mode": "expand", "new_tokens": 5, "prune_at_most": 3},
            "vocabularies.replaced.prune_at_most: needs prune: never-used, which is not set",
        ),
        ({"mode": "expand", "new_tokens": 5, "prune": "all"}, "replaced.prune: 'all' is not one"),
        ({"mode": "prune", "prune_at_most": 0}, "replaced.prune_at_most: 0 is not at least 1"),
        ({"mode": "replace", "plm": "bert"}, "languages.both.plms.bert: missing, but vocabulary"),
        ({"mode": "replace", "tokenizer": "./nowhere"}, "tokenizer: ./nowhere contains no "),
    ],
)
def test_a_vocabulary_that_cannot_be_built_is_refused(entry, message, config):
    study, registries = deepcopy(config), load_registries()
    registries["vocabularies"]["replaced"] = entry
    del study["vocabularies"]["replaced"]
    assert message in refused(study, registries)


def test_vocabularies_of_papers_keep_the_pre_tokenizers_of_their_sources():
    published = {
        name: entry["marks"]
        for name, entry in load_registries()["vocabularies"].items()
        if entry.get("merges") in ("append", "auxiliary-first")
    }
    assert len(published) == 12 and set(published.values()) == {"apart"}


def test_only_the_tokenizer_of_another_model_is_taken(config):
    config["cells"][0]["vocabularies"] = ["replaced", "taken"]
    rules_of_vocabularies = {
        job.wildcards["vocabulary"]: job.rule
        for job in Plan(config).jobs().values()
        if job.rule.endswith("_vocabulary")
    }
    assert rules_of_vocabularies["replaced"] == "build_vocabulary"
    assert rules_of_vocabularies["taken"] == "take_vocabulary"


def test_the_groups_of_vocadt_have_its_sampling_ratios():
    languages = load_registries()["languages"]
    sizes = {"latin": 5, "mixed": 5, "cyrillic": 5, "all": 11}
    for name, size in sizes.items():
        group = languages[f"{name}-group"]["group"]
        assert len(group["members"]) == len(group["shares"]) == size
        assert sum(group["shares"].values()) == pytest.approx(1)
        study = {
            "study": "x", "run_tasks": {"perplexity": {}},
            "cells": [{
                "sources": ["llama-2-7b"], "languages": [f"{name}-group"],
                "vocabularies": ["replace-50k"], "initializers": ["mean"], "strategies": ["none"],
            }],
        }  # fmt: skip
        resolve(study, load_registries())
    assert languages["latin-group"]["group"]["shares"]["id"] == 0.32
    assert languages["all-group"]["group"]["shares"]["el"] == 0.12


def test_a_taken_tokenizer_is_an_input_of_its_rule(config, smollm2_folder_tiny):
    study = Plan(config)
    wildcards = {"source": "tiny", "language": "telugu", "vocabulary": "taken"}
    file = str(Path(smollm2_folder_tiny) / "tokenizer.json")
    assert file in study.inputs("take_vocabulary", wildcards)
