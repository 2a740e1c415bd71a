"""Auxiliaries in the real Snakefile: refused before the first job, computed once, stale alone."""

from collections.abc import Iterator
from copy import deepcopy

import pytest

from lexigraft import UserError
from tests.workflow.conftest import Checkout, copy_project
from tests.workflow.plan import Plan
from workflow.config.checks import check_local_files
from workflow.config.registries import load_registries, resolve


def untrained(miniature: dict, *initializers: str) -> dict:
    """The miniature with Telugu cells of some initializers alone, untrained."""
    config = deepcopy(miniature)
    cells = {**config["cells"][1], "initializers": [*initializers], "strategies": ["none"]}
    return {**config, "cells": [cells], "run_tasks": {"perplexity": {}}}


@pytest.fixture
def config(miniature) -> dict:
    return untrained(miniature, "focus", "align")


def refused(config) -> str:
    with pytest.raises(UserError) as error:
        check_local_files(resolve(config, load_registries()))
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.bad_input(
    "config",
    "an auxiliary that is unknown, missing, or not used by the method",
    "rejected with a message that lists the roles of the method or suggests a similar name",
)
def test_an_unknown_auxiliary_is_named_with_the_one_that_was_meant(config):
    config["cells"][0]["initializers"] = ["own"]
    config["initializers"] = {"own": {"base": "focus", "auxiliary": "fastext"}}
    message = refused(config)
    assert "initializers.own.auxiliary: 'fastext' is not known" in message
    assert "did you mean 'fasttext'?" in message


@pytest.mark.parametrize("entry", [{"method": "focus"}, {"method": "focus", "auxiliary": None}])
def test_focus_without_an_auxiliary_is_refused(config, entry):
    config["cells"][0]["initializers"] = ["own"]
    config["initializers"] = {"own": entry}
    assert "initializers.own.auxiliary: role 'target', which method" in refused(config)


@pytest.mark.bad_input(
    "config",
    "an auxiliary that is unknown, missing, or not used by the method",
    "rejected with a message that lists the roles of the method or suggests a similar name",
)
def test_a_role_that_is_missing_is_named_with_all_that_the_method_reads(config):
    config["cells"][0]["initializers"] = ["own"]
    config["initializers"] = {"own": {"base": "unifyvocab", "auxiliary": {"target": "glove"}}}
    message = refused(config)
    assert "initializers.own.auxiliary: role 'source', which method" in message
    assert "{target: …, source: …}" in message


@pytest.mark.bad_input(
    "config",
    "an auxiliary that is unknown, missing, or not used by the method",
    "rejected with a message that lists the roles of the method or suggests a similar name",
)
@pytest.mark.parametrize("auxiliary", ["fasttext", {"target": "fasttext"}])
def test_an_auxiliary_that_the_method_does_not_read_is_refused(config, auxiliary):
    config["cells"][0]["initializers"] = ["own"]
    config["initializers"] = {"own": {"base": "align", "auxiliary": auxiliary}}
    assert "role 'target', but method 'align' reads no auxiliary" in refused(config)


def test_an_unknown_auxiliary_in_a_role_is_named_with_its_role(config):
    config["cells"][0]["initializers"] = ["own"]
    both = {"target": "glove", "source": "glov"}
    config["initializers"] = {"own": {"base": "unifyvocab", "auxiliary": both}}
    assert "initializers.own.auxiliary.source: 'glov' is not known" in refused(config)


def test_a_single_auxiliary_has_the_role_target(config):
    initializers = resolve(config, load_registries()).config["initializers"]
    assert initializers["focus"]["auxiliary"] == {"target": "fasttext"}
    assert initializers["align"]["auxiliary"] == {}


def test_an_unknown_setting_of_an_auxiliary_is_named(config):
    config["auxiliary"] = {"own": {"base": "fasttext", "dimension": 100}}
    message = refused(config)
    assert "auxiliary.own: unknown key 'dimension'; did you mean 'dimensions'?" in message


def test_a_setting_of_another_kind_is_refused(config):
    config["auxiliary"] = {"own": {"base": "word-vectors", "epochs": 3}}
    assert "auxiliary.own: unknown key 'epochs'" in refused(config)


def test_an_unknown_kind_is_refused(config):
    config["auxiliary"] = {"own": {"kind": "word2vec"}}
    assert "needs a kind: fasttext, glove" in refused(config)


def test_missing_word_vectors_are_named(config, tmp_path):
    config["cells"][0]["initializers"] = ["focus-word"]
    assert "languages.telugu.word_vectors: missing, but initializer 'focus-word'" in refused(config)
    for name, reason in (("te.vec", "there is no such file"), ("te.txt", "is not a .bin, .vec")):
        config["languages"]["telugu"]["word_vectors"] = str(tmp_path / name)
        message = refused(config)
        assert "languages.telugu.word_vectors: " in message
        assert name in message
        assert reason in message


def test_languages_need_no_word_vectors_if_nothing_reads_them(config):
    assert resolve(config, load_registries()).config["languages"]["telugu"]["word_vectors"] is None


@pytest.fixture(scope="module")
def finished(tmp_path_factory, miniature, word_files) -> Checkout:
    """A study of cells that read auxiliaries, whose outputs are all there and up to date."""
    copy = copy_project(tmp_path_factory.mktemp("auxiliary") / "project")
    config = untrained(miniature, "align", "focus-own", "focus-word", "wechsel")
    config["auxiliary"] = {"own": {"base": "fasttext", "epochs": 3}}
    config["initializers"] = {"focus-own": {"base": "focus", "auxiliary": "own"}}
    config["languages"]["telugu"] |= word_files
    copy.config = config
    copy.pretend_finished()
    return copy


@pytest.fixture
def study(finished) -> Iterator[Checkout]:
    """The finished study, whose config a test may change."""
    config = finished.config
    yield finished
    finished.config = config


def after(initializer: str) -> set[str]:
    """Messages of an initializer's jobs and of what reads it."""
    return {
        f"Initializing telugu expand-50 with {initializer} (all-seeds)",
        f"Training telugu expand-50 {initializer} none seed 0",
        f"Evaluating telugu expand-50 {initializer} none seed 0",
        "report",
    }


def computing(auxiliary: str) -> str:
    return f"Computing {auxiliary} of telugu expand-50 of tiny"


def test_changed_settings_rerun_their_vectors_and_what_reads_these(study):
    study.change(lambda config: config["auxiliary"]["own"].update(epochs=4))
    assert study.planned() == after("focus-own") | {computing("own")}


def test_changed_word_vectors_are_read_and_aligned_again(study):
    (study.folder / "other.vec").write_text("1 1\ny 1\n")
    study.change(lambda config: config["languages"]["telugu"].update(word_vectors="other.vec"))
    read = {computing("word-vectors"), computing("aligned-word-vectors")}
    assert study.planned() == after("focus-word") | after("wechsel") | read


def test_a_changed_dictionary_reruns_only_aligned_vectors(study):
    (study.folder / "other.txt").write_text("and\tర\n", encoding="utf-8")
    study.change(lambda config: config["languages"]["telugu"].update(dictionary="other.txt"))
    assert study.planned() == after("wechsel") | {computing("aligned-word-vectors")}


def own_text(miniature: dict, name: str) -> dict:
    """The miniature with vectors that are trained on the text of another language."""
    config = untrained(miniature, "own")
    config["languages"]["other"] = {**config["languages"]["telugu"], "name": "Another text"}
    config["auxiliary"] = {"elsewhere": {"kind": "glove", "corpus": name}}
    both = {"target": "elsewhere", "source": "elsewhere"}
    config["initializers"] = {"own": {"base": "unifyvocab", "auxiliary": both}}
    return config


def test_vectors_are_trained_on_their_own_corpus(miniature):
    study = Plan(own_text(miniature, "other"))
    jobs = [job for job in study.jobs().values() if job.rule == "compute_vectors"]
    assert len(jobs) == 2  # of either tokenizer
    for job in jobs:
        assert job.description["inputs"]["corpus"].endswith("corpus/other")
        assert job.description["settings"] == {"kind": "glove"}


def test_an_unknown_corpus_of_vectors_is_refused(miniature):
    assert "auxiliary.elsewhere.corpus: 'ohter' is not known; did you mean 'other'?" in refused(
        own_text(miniature, "ohter")
    )


HYPERNETWORK = {"method": "zett", "options": {"hypernetwork": "./none"}, "languages": ["en", "te"]}


def test_a_multilingual_method_gets_the_language_of_the_cell(miniature):
    config = untrained(miniature, "own")
    config["initializers"] = {"own": HYPERNETWORK}
    study = Plan(config)
    (job,) = [job for job in study.jobs().values() if "initiali" in job.rule]
    assert job.description["settings"]["options"] == {"hypernetwork": "./none", "language": "te"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"languages": ["en", "el"]},
            "own.languages: 'telugu' has code 'te', but the method only supports",
        ),
        ({"method": "mean", "options": {}}, "initializers.own.options: "),
    ],
)
def test_a_language_that_a_method_does_not_support_is_refused(miniature, changed, message):
    config = untrained(miniature, "own")
    config["initializers"] = {"own": {**HYPERNETWORK, **changed}}
    assert message in refused(config)
