"""Word vectors, dictionaries and other models' embeddings in the real Snakefile."""

import json
from copy import deepcopy

import pytest

from lexigraft import UserError
from tests.workflow.conftest import Checkout, copy_project
from workflow.configuration import load_registries, resolve

REPLACED = {"mode": "replace", "plm": "bert"}


@pytest.fixture
def config(miniature, tmp_path) -> dict:
    """The miniature with Telugu cells of wechsel, untrained, and the files that it reads."""
    config = deepcopy(miniature)
    files = {  # single letters: the pre-tokenizer cuts words at vowel signs
        "te.vec": "3 2\nక 1 0\nన 0 1\nర 1 1\n",
        "en.vec": "3 2\nthe 0 1\nof -1 0\nand -1 1\n",
        "te.txt": "the\tక\nof\tన\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    cells = {**config["cells"][1], "initializers": ["wechsel"], "strategies": ["none"]}
    config["languages"]["telugu"] |= {
        "word_vectors": str(tmp_path / "te.vec"),
        "english_word_vectors": str(tmp_path / "en.vec"),
        "dictionary": str(tmp_path / "te.txt"),
    }
    listed = {"unlisted_words": False}
    config["auxiliary"] = {"english-word-vectors": listed, "aligned-word-vectors": listed}
    return {**config, "cells": [cells], "run_tasks": {"perplexity": {}}}


@pytest.fixture
def with_model(config, tmp_path) -> dict:
    """The same with a cell of omp, on the tokenizer of a model of the language."""
    from transformers import BertConfig, BertModel

    from tests.conftest import package_folder

    model = tmp_path / "bert"
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    BertModel(BertConfig(vocab_size=32_000, intermediate_size=8, **sizes)).save_pretrained(model)
    package = package_folder("mistral-common") / "mistral_common" / "data" / "tokenizer.model.v1"
    from lexigraft.source.sentencepiece import sentencepiece_to_fast

    sentencepiece_to_fast(package).save_pretrained(model)
    config["languages"]["telugu"]["plms"] = {"bert": {"model": str(model)}}
    config["vocabularies"] = {"own": REPLACED}
    config["initializers"] = {"omp": {"auxiliary": {"plm": "plm-bert"}}}
    cells = {**config["cells"][0], "vocabularies": ["own"], "initializers": ["omp"]}
    return {**config, "cells": [*config["cells"], cells]}


def refused(config) -> str:
    with pytest.raises(UserError) as error:
        resolve(config, load_registries())
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    "key, reads",
    [
        ("word_vectors", "reads word vectors; name a .bin or .vec file"),
        ("english_word_vectors", "reads word vectors; name a .bin or .vec file"),
        ("dictionary", "reads a dictionary; name a text file of pairs"),
    ],
)
def test_a_language_that_lacks_a_file_is_named_with_the_key(config, tmp_path, key, reads):
    texts = config["languages"]["telugu"]
    texts[key] = str(tmp_path / "none.vec")
    assert f"languages.telugu.{key}: {tmp_path}/none.vec: there is no such file" in refused(config)
    del texts[key]
    message = refused(config)
    assert f"languages.telugu.{key}: missing, but initializer 'wechsel' {reads}" in message


def test_a_file_of_all_languages_is_named_by_its_auxiliary(config):
    config["cells"][0]["initializers"] = ["ofa-100"]
    config["languages"]["telugu"] |= {"word_vectors": None}
    assert "auxiliary.colexnet.path: data/colexnet/colexnet.vec: there is no" in refused(config)


def test_a_language_without_the_model_is_named(with_model):
    with_model["languages"]["telugu"]["plms"] = {"gpt": {"model": "org/gpt"}}
    assert "languages.telugu.plms.bert: missing" in refused(with_model)


def test_a_vocabulary_that_is_not_the_models_own_is_refused(with_model):
    with_model["cells"][1]["vocabularies"] = ["expand-50"]
    message = refused(with_model)
    assert "config.cells[1]: initializer 'omp' reads a model's embeddings" in message
    assert "{mode: replace, plm: bert}" in message


def test_a_folder_without_a_model_is_named(with_model, tmp_path):
    (tmp_path / "bert" / "config.json").unlink()
    message = refused(with_model)
    assert f"languages.telugu.plms.bert.model: {tmp_path}/bert holds no config.json" in message


@pytest.fixture
def finished(tmp_path, config) -> Checkout:
    """A study of wechsel whose outputs are all there and up to date."""
    copy = copy_project(tmp_path / "project")
    copy.config = config
    copy.pretend_finished()
    return copy


def test_another_dictionary_makes_the_targets_vectors_anew_and_no_texts(finished, tmp_path):
    (tmp_path / "other.txt").write_text("and\tర\n", encoding="utf-8")

    def other(config):
        config["languages"]["telugu"]["dictionary"] = str(tmp_path / "other.txt")

    finished.change(other)
    assert finished.planned() == {
        "Reading aligned-word-vectors of telugu for expand-50 of tiny",
        "Initializing telugu expand-50 by wechsel (all-seeds)",
        "Training telugu expand-50 wechsel none seed 0",
        "Evaluating perplexity of telugu expand-50 wechsel none seed 0",
        "report",
    }


def test_a_run_reads_the_files_and_the_model_and_says_what_it_used(checkout, with_model):
    checkout.config = with_model
    folder = "results/initialization/tiny/telugu"
    cards = [f"{folder}/expand-50/wechsel/all-seeds", f"{folder}/own/omp/all-seeds"]
    result = checkout.snakemake(*(f"{card}/card.json" for card in cards))
    assert result.returncode == 0, result.stderr

    def card(place):
        return json.loads((checkout.folder / place / "card.json").read_text(encoding="utf-8"))

    auxiliaries = card(cards[0])["job"]["inputs"]["auxiliary"]
    aligned, english = card(auxiliaries["target"]), card(auxiliaries["source"])
    assert (aligned["pairs"], aligned["pairs_used"]) == (2, 2)
    assert english["tokens"] + 50 == aligned["tokens"]
    assert aligned["dictionary"]["sha256"] != english["word_vectors"]["sha256"]
    assert card(cards[0])["statistics"]["share_fallback"] < 1
    plm = card("results/auxiliary/tiny/telugu/own/plm-bert")
    assert plm["tokens_with_vector"] == 32_000
    assert card(cards[1])["statistics"]["share_recipe"] > 0.5
