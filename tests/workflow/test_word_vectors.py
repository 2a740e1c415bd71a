"""Word vectors, dictionaries and other models' embeddings: refused before the first job."""

from copy import deepcopy

import pytest

from lexigraft import UserError
from workflow.config.checks import check_local_files
from workflow.config.registries import load_registries, resolve

REPLACED = {"mode": "replace", "plm": "bert"}


@pytest.fixture
def config(miniature, word_files) -> dict:
    """The miniature with Telugu cells of wechsel, untrained, and the files that it reads."""
    config = deepcopy(miniature)
    cells = {**config["cells"][1], "initializers": ["own"], "strategies": ["none"]}
    config["languages"]["telugu"] |= word_files
    listed = {"unlisted_words": False}
    config["auxiliary"] = {
        "english": {"base": "english-word-vectors", **listed},
        "aligned": {"base": "aligned-word-vectors", **listed},
    }
    both = {"target": "aligned", "source": "english"}
    config["initializers"] = {"own": {"base": "wechsel", "auxiliary": both}}
    return {**config, "cells": [cells], "run_tasks": {"perplexity": {}}}


@pytest.fixture
def with_model(config, tmp_path) -> dict:
    """The same with a cell of omp, on the tokenizer of a model of the language."""
    model = tmp_path / "bert"
    model.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (model / name).touch()
    config["languages"]["telugu"]["plms"] = {"bert": {"model": str(model)}}
    config["vocabularies"] = {"own": REPLACED}
    config["initializers"]["omp-bert"] = {"base": "omp", "auxiliary": {"plm": "plm-bert"}}
    cells = {**config["cells"][0], "vocabularies": ["own"], "initializers": ["omp-bert"]}
    return {**config, "cells": [*config["cells"], cells]}


def refused(config) -> str:
    with pytest.raises(UserError) as error:
        check_local_files(resolve(config, load_registries()))
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    "key, reads",
    [
        ("word_vectors", "reads word vectors; specify a .bin or .vec file"),
        ("english_word_vectors", "reads word vectors; specify a .bin or .vec file"),
        ("dictionary", "reads a dictionary; specify a text file of pairs"),
    ],
)
def test_the_key_of_a_missing_file_of_a_language_is_named(config, tmp_path, key, reads):
    texts = config["languages"]["telugu"]
    texts[key] = str(tmp_path / "none.vec")
    assert f"languages.telugu.{key}: {tmp_path}/none.vec: there is no such file" in refused(config)
    del texts[key]
    message = refused(config)
    assert f"languages.telugu.{key}: missing, but initializer 'own' {reads}" in message


def test_a_missing_file_for_all_languages_is_named_by_its_auxiliary(config):
    config["cells"][0]["initializers"] = ["ofa-100"]
    config["languages"]["telugu"] |= {"word_vectors": None}
    assert "auxiliary.colexnet.path: data/colexnet/colexnet.vec: there is no" in refused(config)


def test_a_language_without_a_model_is_named(with_model):
    with_model["languages"]["telugu"]["plms"] = {"gpt": {"model": "org/gpt"}}
    assert "languages.telugu.plms.bert: missing" in refused(with_model)


def test_a_vocabulary_of_another_model_is_refused(with_model):
    with_model["cells"][1]["vocabularies"] = ["expand-50"]
    message = refused(with_model)
    assert "config.cells: initializer 'omp-bert' reads a model's embeddings" in message
    assert "{mode: replace, plm: bert}" in message


def test_a_folder_without_a_model_is_named(with_model, tmp_path):
    (tmp_path / "bert" / "config.json").unlink()
    message = refused(with_model)
    assert f"languages.telugu.plms.bert.model: {tmp_path}/bert contains no config.json" in message
