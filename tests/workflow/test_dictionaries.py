"""A dictionary that is missing, or that nothing reads, is refused before the first job."""

from copy import deepcopy

import pytest

from lexigraft import UserError
from workflow.config.checks import check_local_files
from workflow.config.registries import load_registries, resolve


@pytest.fixture
def config(miniature, word_files) -> dict:
    """The miniature with Telugu cells of cw2v alone, untrained, and a dictionary of Telugu."""
    config = deepcopy(miniature)
    cells = {**config["cells"][1], "initializers": ["mine"], "strategies": ["none"]}
    config["languages"]["telugu"]["dictionary"] = word_files["dictionary"]
    config["initializers"] = {"mine": {"base": "cw2v", "dictionary": True}}
    return {**config, "cells": [cells], "run_tasks": {"perplexity": {}}}


def refused(config) -> str:
    with pytest.raises(UserError) as error:
        check_local_files(resolve(config, load_registries()))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_missing_dictionary_is_named(config):
    config["languages"]["telugu"]["dictionary"] += "x"
    message = refused(config)
    assert "languages.telugu.dictionary" in message
    assert "there is no such file" in message
    del config["languages"]["telugu"]["dictionary"]
    assert "languages.telugu.dictionary: missing, but initializer 'mine' reads it" in refused(
        config
    )


def test_a_dictionary_for_a_method_that_reads_none_is_refused(config):
    config["initializers"] = {"mine": {"base": "align", "dictionary": True}}
    message = refused(config)
    assert "initializers.mine.dictionary: set to true, but method 'align' does not read" in message
