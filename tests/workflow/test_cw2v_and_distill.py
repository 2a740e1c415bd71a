"""Methods that read the source's matrices, its model or a dictionary, in the real Snakefile."""

import json
from copy import deepcopy

import pytest

from lexigraft import UserError
from workflow.checks import check_local_files
from workflow.configuration import load_registries, resolve


@pytest.fixture
def config(miniature, tmp_path) -> dict:
    """The miniature with Telugu cells of cw2v alone, untrained, and a dictionary of Telugu."""
    (tmp_path / "dictionary.txt").write_text("page\tపేజీ\nname\tపేరు\n", encoding="utf-8")
    config = deepcopy(miniature)
    cells = {**config["cells"][1], "initializers": ["cw2v"], "strategies": ["none"]}
    config["languages"]["telugu"]["dictionary"] = str(tmp_path / "dictionary.txt")
    small = {"rank": 4, "epochs": 1, "window": 2, "learning_rate": 0.1}
    config["initializers"] = {"cw2v": {"options": small, "dictionary": True}}
    return {**config, "cells": [cells], "run_tasks": {"perplexity": {}}}


def refused(config) -> str:
    with pytest.raises(UserError) as error:
        check_local_files(resolve(config, load_registries()))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_dictionary_that_is_missing_is_named(config):
    config["languages"]["telugu"]["dictionary"] += "x"
    message = refused(config)
    assert "languages.telugu.dictionary" in message
    assert "there is no such file" in message
    del config["languages"]["telugu"]["dictionary"]
    assert "languages.telugu.dictionary: missing, but initializer 'cw2v' reads it" in refused(
        config
    )


def test_a_method_that_reads_no_dictionary_says_so(config):
    config["cells"][0]["initializers"] = ["align"]
    config["initializers"] = {"align": {"dictionary": True}}
    message = refused(config)
    assert "initializers.align.dictionary: true, but method 'align' reads none" in message


def test_both_get_what_they_read(checkout, config):
    config["cells"][0]["initializers"] = ["cw2v", "distill"]
    config["initializers"]["distill"] = {"options": {"snippets": 2, "length": 10}}
    checkout.config = config
    folder = "results/initialization/tiny/telugu/expand-50"
    cards = [f"{folder}/{name}/seed-0/card.json" for name in ("cw2v", "distill")]
    result = checkout.snakemake(*cards)
    assert result.returncode == 0, result.stderr
    cw2v, distill = (json.loads((checkout.folder / card).read_text()) for card in cards)
    assert cw2v["job"]["inputs"]["dictionaries"] == [config["languages"]["telugu"]["dictionary"]]
    assert "recipes.npz" in cw2v["files"]
    assert cw2v["statistics"]["loss_after"] < cw2v["statistics"]["loss_before"]
    assert "rows.safetensors" in distill["files"]
    assert distill["statistics"]["snippets"] > 0
