"""Auxiliaries in the real Snakefile: refused before the first job, made once, stale alone."""

import json
from copy import deepcopy

import pytest

from lexigraft import UserError
from tests.workflow.conftest import Checkout, copy_project
from workflow.configuration import load_registries, resolve

FASTTEXT = "Training fasttext on telugu expand-50 of tiny"
FOCUS = {
    "Initializing telugu expand-50 by focus (all-seeds)",
    "Training telugu expand-50 focus none seed 0",
    "Evaluating perplexity of telugu expand-50 focus none seed 0",
}


@pytest.fixture
def config(miniature) -> dict:
    """The miniature with Telugu cells of focus and of align alone, untrained."""
    config = deepcopy(miniature)
    cells = {**config["cells"][1], "initializers": ["focus", "align"], "strategies": ["none"]}
    return {**config, "cells": [cells], "run_tasks": {"perplexity": {}}}


def refused(config) -> str:
    with pytest.raises(UserError) as error:
        resolve(config, load_registries())
    assert "\n" not in str(error.value)
    return str(error.value)


def test_an_unknown_auxiliary_is_named_with_the_one_that_was_meant(config):
    config["initializers"] = {"focus": {"auxiliary": "fastext"}}
    message = refused(config)
    assert "initializers.focus.auxiliary: 'fastext' is not known" in message
    assert "did you mean 'fasttext'?" in message


@pytest.mark.parametrize("entry", [{"method": "focus"}, {"method": "focus", "auxiliary": None}])
def test_focus_without_an_auxiliary_is_refused(config, entry):
    config["cells"][0]["initializers"] = ["own"]
    config["initializers"] = {"own": entry}
    assert "initializers.own.auxiliary: none in the role 'target'" in refused(config)


def test_a_role_that_is_missing_is_named_with_all_that_the_method_reads(config):
    config["cells"][0]["initializers"] = ["unifyvocab"]
    config["initializers"] = {"unifyvocab": {"auxiliary": {"target": "glove"}}}
    message = refused(config)
    assert "initializers.unifyvocab.auxiliary: none in the role 'source'" in message
    assert "{target: …, source: …}" in message


@pytest.mark.parametrize("auxiliary", ["fasttext", {"target": "fasttext"}])
def test_an_auxiliary_that_the_method_does_not_read_is_refused(config, auxiliary):
    config["initializers"] = {"align": {"auxiliary": auxiliary}}
    assert "role 'target', but method 'align' reads no auxiliary" in refused(config)


def test_an_unknown_auxiliary_in_a_role_is_named_with_its_role(config):
    config["cells"][0]["initializers"] = ["unifyvocab"]
    config["initializers"] = {"unifyvocab": {"auxiliary": {"target": "glove", "source": "glov"}}}
    assert "initializers.unifyvocab.auxiliary.source: 'glov' is not known" in refused(config)


def test_a_name_alone_is_the_auxiliary_in_the_role_of_the_target(config):
    initializers = resolve(config, load_registries())["initializers"]
    assert initializers["focus"]["auxiliary"] == {"target": "fasttext"}
    assert initializers["align"]["auxiliary"] == {}


def test_an_unknown_setting_of_an_auxiliary_is_named(config):
    config["auxiliary"] = {"fasttext": {"dimension": 100}}
    message = refused(config)
    assert "auxiliary.fasttext: unknown key 'dimension'; did you mean 'dimensions'?" in message


def test_a_setting_of_the_other_kind_is_refused(config):
    config["auxiliary"] = {"word-vectors": {"epochs": 3}}
    assert "auxiliary.word-vectors: unknown key 'epochs'" in refused(config)


def test_an_unknown_kind_is_refused(config):
    config["auxiliary"] = {"own": {"kind": "word2vec"}}
    assert "needs a kind: fasttext, glove" in refused(config)


def test_word_vectors_that_are_missing_are_named(config, tmp_path):
    config["cells"][0]["initializers"] = ["focus-word"]
    assert "languages.telugu.word_vectors: missing, but initializer 'focus-word'" in refused(config)
    for name, reason in (("te.vec", "there is no such file"), ("te.txt", "is no .bin, .vec")):
        config["languages"]["telugu"]["word_vectors"] = str(tmp_path / name)
        message = refused(config)
        assert "languages.telugu.word_vectors: " in message
        assert name in message
        assert reason in message


def test_languages_without_word_vectors_are_fine_where_nothing_reads_them(config):
    assert resolve(config, load_registries())["languages"]["telugu"]["word_vectors"] is None


@pytest.fixture
def finished(tmp_path, config) -> Checkout:
    """A study with focus cells whose outputs are all there and up to date."""
    copy = copy_project(tmp_path / "project")
    (copy.folder / "te.vec").write_text("1 1\nx 1\n")
    config["cells"][0]["initializers"].append("focus-word")
    config["languages"]["telugu"]["word_vectors"] = "te.vec"
    copy.config = config
    copy.pretend_finished()
    return copy


def test_a_change_reruns_the_vectors_it_concerns_and_what_reads_them(finished):
    def settings(config):
        config["auxiliary"] = {"fasttext": {"epochs": 4}}

    before = finished.config
    finished.change(settings)
    assert finished.planned() == FOCUS | {FASTTEXT, "report"}
    finished.config = before
    (finished.folder / "other.vec").write_text("1 1\ny 1\n")
    finished.change(lambda config: config["languages"]["telugu"].update(word_vectors="other.vec"))
    word = {message.replace("by focus ", "by focus-word ") for message in FOCUS}
    word = {message.replace(" focus none", " focus-word none") for message in word}
    reading = "Reading word-vectors of telugu for expand-50 of tiny"
    assert finished.planned() == word | {reading, "report"}


def test_auxiliaries_of_the_source_are_made_of_its_own_tokenizer(checkout, config):
    both = {"target": "small", "source": "small"}
    config["auxiliary"] = {
        "small": {"kind": "glove", "dimensions": 4, "epochs": 1, "minimum_count": 2, "window": 3}
    }
    config["cells"][0]["initializers"] = ["unifyvocab"]
    config["initializers"] = {"unifyvocab": {"auxiliary": both, "options": {"anchors": 20}}}
    checkout.config = config
    card = "results/initialization/tiny/telugu/expand-50/unifyvocab/all-seeds/card.json"
    result = checkout.snakemake(card)
    assert result.returncode == 0, result.stderr
    found = json.loads((checkout.folder / card).read_text())
    sizes = {}
    for role, vocabulary in (("target", "expand-50"), ("source", "source")):
        folder = f"results/auxiliary/tiny/telugu/{vocabulary}/small"
        assert found["job"]["inputs"]["auxiliary"][role] == folder
        sizes[role] = json.loads((checkout.folder / folder / "card.json").read_text())["tokens"]
    assert sizes["target"] == sizes["source"] + 50
    assert found["statistics"]["anchors"] == 20
