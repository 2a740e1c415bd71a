"""A study's `budget` scales all amounts of text, has results of its own, and is in the report."""

from dataclasses import replace

import pytest

from lexigraft.report.inputs import report_settings
from lexigraft.report.page import study_caveats
from lexigraft.report.records import read_study
from lexigraft.yaml_files import read_yaml
from workflow.config.registries import ROOT, load_registries, resolve

PHASES = [
    {"trainable": ["adapter"], "length": 512, "tokens_per_language": 500_000_000},
    {"trainable": ["all"], "length": 512, "data": "parallel", "epochs": 1},
]


@pytest.fixture(scope="module")
def config():
    """A miniature with an amount at every place that has one."""
    config = read_yaml(ROOT / "config/studies/vocadt-mini.yaml")
    own = {
        "languages": {"big": {
            "name": "Big", "code": "te", "text": {"loader": "text", "paths": ["big.txt"]},
            "train_sentences": None, "train_characters": 3_000_000_000,
            "read_characters": 6_000_000_000, "heldout_sentences": 1000,
            "samples": {"parallel": {"kind": "parallel", "pairs": 15_000, "text": {
                "loader": "tsv", "path": "pairs.tsv"}}},
        }},
        "vocabularies": {"big": {"mode": "expand", "new_tokens": 5000,
                                 "text": {"tokens_per_language": 2_000_000}}},
        "auxiliary": {"big": {"kind": "glove", "text": {"tokens": 1_000_000_000}}},
        "initializers": {"big": {"method": "mean", "text": {"sentences": 30}}},
        "strategies": {"big": {"phases": PHASES}, "whole": {"phases": [
            {"trainable": ["all"], "length": 512}], "tokens": 5_000_000_000}},
    }  # fmt: skip
    return config | {kind: config.get(kind, {}) | entries for kind, entries in own.items()}


@pytest.fixture(scope="module")
def registries():
    return load_registries()


@pytest.fixture(scope="module")
def whole(config, registries):
    return resolve(config, registries).config


@pytest.fixture(scope="module")
def small(config, registries):
    return resolve(config | {"budget": 0.01}, registries).config


def test_every_amount_is_this_part_of_it_and_nothing_else_changes(whole, small):
    language = small["languages"]["big"]
    assert language["train_characters"] == 30_000_000
    assert language["read_characters"] == 60_000_000
    assert language["samples"]["parallel"]["pairs"] == 150
    assert (language["train_sentences"], language["heldout_sentences"]) == (None, 1000)
    assert small["vocabularies"]["big"]["text"] == {"tokens_per_language": 20_000}
    assert small["vocabularies"]["big"]["new_tokens"] == 5000
    assert small["auxiliary"]["big"]["text"] == {"tokens": 10_000_000}
    assert small["initializers"]["big"]["text"] == {"sentences": 1}
    first, second = small["strategies"]["big"]["phases"]
    assert (first["tokens_per_language"], second["epochs"]) == (5_000_000, 1)
    assert small["strategies"]["whole"]["tokens"] == 50_000_000
    for kind in ("sources", "tasks", "cells", "run_tasks", "report"):
        assert small[kind] == whole[kind]


def test_its_results_lie_in_a_folder_of_their_own(small):
    assert small["results"].endswith("/budget-0.01")


def test_the_report_says_so(whole, small, tmp_path):
    assert report_settings(small)["budget"] == 0.01
    assert "budget" not in report_settings(whole)
    record = tmp_path / "record.json"
    record.write_text('{"tokenizer": "t", "language": "te", "metrics": {"fertility": 1.0}}')
    study = read_study({"study": "s", "budget": 0.01, "items": []}, {"tokenizers": [str(record)]})
    [said] = [text for text in study_caveats(study) if "budget of 0.01" in text]
    assert "every amount of text" in said
    assert not any("budget" in text for text in study_caveats(replace(study, budget=None)))
