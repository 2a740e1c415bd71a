"""Samples in a study: checked before the first job, prepared by their own rules, trained on."""

import json
import sys
from copy import deepcopy
from runpy import run_path

import pytest
import yaml

from lexigraft import UserError
from tests.workflow.conftest import REPOSITORY
from tests.workflow.plan import Plan
from workflow.config.checks import check_local_files
from workflow.config.registries import load_registries, resolve

SHARED = {"trainable": ["all"], "length": 64}


@pytest.fixture(scope="module")
def config(miniature, texts) -> dict:
    """Two languages with parallel samples, a group of both, and a strategy that reads them."""
    config = deepcopy(miniature)
    languages = config["languages"]
    for name in ("telugu", "greek"):
        text = {"loader": "tsv", "path": str(texts / f"{name}.tsv")}
        languages[name]["samples"] = {"parallel": {"kind": "parallel", "text": text, "pairs": 20}}
    group = {"members": ["telugu", "greek"]}
    languages["both"] = {"name": "Both", "train_sentences": None, "group": group}
    phases = [{**SHARED, "share": 0.5}, {**SHARED, "share": 0.5, "data": "parallel"}]
    short = {**config["strategies"]["short"], "phases": phases}
    config["strategies"] = {"two-texts": short, "short": config["strategies"]["short"]}
    block = {
        "sources": ["tiny"],
        "vocabularies": ["source"],
        "initializers": ["none"],
    }
    config["cells"] = [
        {**block, "languages": ["telugu", "both"], "strategies": ["two-texts"]},
        {**block, "languages": ["greek"], "strategies": ["short"]},
    ]
    config["run_tasks"] = {"perplexity": {}}
    return config


@pytest.fixture
def changed(config):
    """`changed(lambda config: …)`: the config with that change."""

    def build(change=lambda _: None):
        own = deepcopy(config)
        change(own)
        return own

    return build


def refused(changed, change) -> str:
    with pytest.raises(UserError) as error:
        check_local_files(resolve(changed(change), load_registries()))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_samples_are_prepared_for_the_languages_that_train_on_them(checkout, config):
    checkout.config = config
    planned = checkout.planned()
    assert {job for job in planned if "samples" in job} == {
        "Preparing the samples parallel of telugu",
        "Preparing the samples parallel of greek",  # for the group
        "Preparing the samples parallel of both",
    }


def test_a_cell_s_job_names_the_files_that_its_strategy_reads(changed):
    study = Plan(changed())
    inputs = {
        cell.language: json.loads(study.job("train", {k: str(v) for k, v in vars(cell).items()}))[
            "inputs"
        ].get("samples")
        for cell in study.cells
    }
    assert inputs == {
        "telugu": {"parallel": "results/corpus/telugu/samples/parallel/samples.jsonl"},
        "both": {"parallel": "results/corpus/both/samples/parallel/samples.jsonl"},
        "greek": None,
    }


def test_a_cell_waits_for_its_samples_whatever_their_name(changed):
    def rename(config):
        for texts in config["languages"].values():
            if "samples" in texts:
                texts["samples"] = {"python": texts["samples"]["parallel"]}
        config["strategies"]["two-texts"]["phases"][1] = {**SHARED, "share": 0.5, "data": "python"}

    study = Plan(changed(rename))
    cell = next(cell for cell in study.cells if cell.language == "telugu")
    assert "results/corpus/telugu/samples/python/card.json" in study.inputs("train", cell.wildcards)


def test_the_jobs_of_samples_run_as_the_rules_describe_them(changed, tmp_path, monkeypatch):
    study = Plan(changed())
    monkeypatch.chdir(tmp_path)

    def run(rule, **wildcards):
        described = json.loads(study.job(rule, wildcards))
        monkeypatch.setattr(sys, "argv", [rule, json.dumps(described)])
        run_path(str(REPOSITORY / f"scripts/{rule}.py"), run_name="__main__")
        return tmp_path / described["outputs"]["folder"]

    for language in ("telugu", "greek"):
        run("prepare_corpus", language=language)
        folder = run("prepare_samples", language=language, samples="parallel")
        assert json.loads((folder / "card.json").read_text())["pairs"] == 20
    mixed = run("prepare_samples", language="both", samples="parallel") / "samples.jsonl"
    prompts = [json.loads(line)["prompt"] for line in mixed.read_text("utf-8").splitlines()]
    begin = "Translate this from English to"
    assert {p.split(":")[0] for p in prompts if p.startswith(begin)} == {
        f"{begin} Telugu",
        f"{begin} Greek",
    }


def test_samples_are_no_part_of_the_corpus(changed):
    def corpus(study):
        return Plan(study).job("prepare_corpus", {"language": "telugu"})

    other = changed(lambda c: c["languages"]["telugu"]["samples"]["parallel"].update(pairs=5))
    assert corpus(changed()) == corpus(other)


@pytest.mark.bad_input(
    "config", "invalid settings of training samples", "rejected with a message that names the key"
)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: c["languages"]["telugu"].pop("samples"),
            "languages.telugu.samples: 'parallel', which strategy 'two-texts' trains on, is",
        ),
        (
            lambda c: c["strategies"]["two-texts"]["phases"][1].update(data={"paralel": 1.0}),
            "languages.telugu.samples: 'paralel', which strategy 'two-texts' trains on, is "
            "missing; did you mean 'parallel'?",
        ),
        (
            lambda c: c["languages"]["telugu"]["samples"]["parallel"].update(minimum_quality=1),
            "languages.telugu.samples.parallel.minimum_quality: the text has no quality scores",
        ),
        (
            lambda c: c["languages"]["telugu"]["samples"].update(monolingual={}),
            "languages.telugu.samples: 'monolingual'",
        ),
        (
            lambda c: c["languages"]["telugu"]["samples"]["parallel"].update(kind="pairs"),
            "languages.telugu.samples.parallel: needs a kind: ",
        ),
        (
            lambda c: c["languages"]["telugu"]["samples"]["parallel"].update(
                text={"loader": "catalogue", "package": "kolibry", "locale": "te"}
            ),
            "languages.telugu.samples.parallel.text.package: 'kolibry' is not known; did you mean",
        ),
        (
            lambda c: c["strategies"]["two-texts"]["phases"][1].update(data={"parallel": 0.5}),
            "strategies.two-texts.phases[1].data: the shares add up to 0.5",
        ),
        (
            lambda c: c["languages"]["both"].update(samples={}),
            "languages.both.samples: a group can only have name, group, train_sentences, "
            "train_characters",
        ),
    ],
)
def test_samples_that_cannot_be_are_refused(change, message, changed):
    assert message in refused(changed, change)


def test_a_member_without_samples_gives_a_group_none(changed):
    study = Plan(changed(lambda c: c["languages"]["greek"].pop("samples")))
    mixed = json.loads(study.job("prepare_samples", {"language": "both", "samples": "parallel"}))
    assert list(mixed["inputs"]["samples"]) == ["telugu"]
    assert list(mixed["inputs"]["corpora"]) == ["telugu", "greek"]


def test_files_are_required_only_where_something_trains_on_them(config, changed):
    def lost(c):
        c["languages"]["telugu"]["samples"]["parallel"]["text"]["path"] = "no/such.tsv"

    message = refused(changed, lost)
    assert "languages.telugu.samples.parallel.text.path: no/such.tsv: there is no such" in message
    own = deepcopy(config)
    lost(own)
    own["cells"] = own["cells"][1:]
    check_local_files(resolve(own, load_registries()))


def test_the_registry_s_languages_of_vocadt_have_its_15000_best_pairs():
    languages = yaml.safe_load((REPOSITORY / "config/languages.yaml").read_text())["languages"]
    groups = ("latin-group", "mixed-group", "cyrillic-group")
    members = {name for group in groups for name in languages[group]["group"]["members"]}
    for name in members - {"en"}:
        entry = languages[name]["samples"]["parallel"]
        assert (entry["kind"], entry["pairs"]) == ("parallel", 15000)
        assert "quality_column" in entry["text"]
