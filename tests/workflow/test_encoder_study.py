"""Studies with encoders: which tasks and strategies fit them, and which examples a cell needs."""

import json

import pytest

from lexigraft.yaml_files import read_yaml
from tests.workflow.conftest import refused, study_of_entries
from tests.workflow.plan import Plan
from workflow.config.registries import ROOT
from workflow.study import LEARNED_PARTS


@pytest.fixture
def config(texts, roberta_folder, tmp_path):
    """An encoder and a task of a table of our own; nothing of it is run."""
    rows = tmp_path / "nli.jsonl"
    rows.write_text(json.dumps({"a": "one", "b": "two", "y": 0}) + "\n")
    text = {"loader": "jsonl", "path": str(rows)}

    def language(name, code):
        return {
            "name": name.title(),
            "code": code,
            "text": {"loader": "text", "paths": [str(texts / f"{name}.txt")]},
            "parallel": {"loader": "tsv", "path": str(texts / f"{name}.tsv")},
        }

    return {
        "study": "encoders",
        "cells": [
            {
                "sources": ["tiny"],
                "languages": ["telugu"],
                "vocabularies": ["source"],
                "initializers": ["none"],
                "strategies": ["none", "mask"],
            }
        ],
        "run_tasks": {"nli": {}},
        "sources": {"tiny": {"folder": str(roberta_folder), "kind": "masked"}},
        "languages": {
            "telugu": language("telugu", "te"),
            "greek": language("greek", "el"),
            "both": {"name": "Both", "group": {"members": ["telugu", "greek"]}},
        },
        "strategies": {
            "mask": {"phases": [{"trainable": ["all"], "objective": "mlm", "length": 64}]}
        },
        "tasks": {
            "nli": {
                "kind": "classification",
                "examples": {
                    "labels": ["no", "yes"],
                    "columns": {"first": "a", "second": "b", "label": "y"},
                    "train": text,
                    "test": [
                        {**text, "languages": ["te", "en"]},
                        {
                            "loader": "datasets",
                            "name": "org/nli-{code}",
                            "split": "test",
                            "languages": ["el", "hi"],
                            "columns": {"first": "x", "label": "y"},
                            "data_files": ["{code}/*.parquet"],
                        },
                    ],
                },
                "epochs": 1,
            }
        },
    }


def described(config, registries, rule, **wildcards):
    return Plan(config).described(rule, wildcards)


def cell(language="telugu"):
    return {
        "source": "tiny", "language": language, "vocabulary": "source", "initializer": "none",
        "strategy": "mask", "seed": "0",
    }  # fmt: skip


def test_a_cell_is_trained_on_one_table_and_tested_in_its_language_and_english(config, registries):
    given = described(config, registries, "evaluate", **cell())
    folder = "results/examples/nli"
    assert given["inputs"]["read"]["nli"]["examples"] == {
        "train": f"{folder}/train",
        "tests": {"telugu": f"{folder}/te", "english": f"{folder}/en"},
    }
    assert given["tasks"]["nli"]["settings"] == {"kind": "classification", "epochs": 1}
    wanted = Plan(config).inputs("evaluate", cell())
    assert {f"{folder}/{part}/card.json" for part in ("train", "te", "en")} <= {*wanted}


def test_validation_examples_are_read_beside_training_examples(config, registries):
    examples = config["tasks"]["nli"]["examples"]
    examples["validation"] = examples["train"] | {"path": "no/such.jsonl"}
    given = described(config, registries, "evaluate", **cell())
    parts = given["inputs"]["read"]["nli"]["examples"]
    assert parts["validation"] == "results/examples/nli/validation"
    part = described(config, registries, "prepare_examples", task="nli", part="validation")
    assert part["settings"]["text"]["path"] == "no/such.jsonl"
    assert "tasks.nli.examples (validation).text.path" in refused(config, registries)


def test_each_part_is_read_from_its_table(config, registries):
    given = described(config, registries, "prepare_examples", task="nli", part="te")
    assert given["settings"]["columns"] == {"first": "a", "second": "b", "label": "y"}
    assert given["settings"]["text"]["loader"] == "jsonl"
    assert given["outputs"]["folder"] == "results/examples/nli/te"
    given = described(config, registries, "prepare_examples", task="nli", part="hi")
    assert given["settings"] == {
        "rows": "labels",
        "labels": ["no", "yes"],
        "columns": {"first": "x", "label": "y"},
        "text": {
            "loader": "datasets", "name": "org/nli-hi", "split": "test",
            "data_files": ["hi/*.parquet"],
        },
    }  # fmt: skip


def test_a_language_without_examples_is_refused(config, registries):
    config["tasks"]["nli"]["examples"]["test"].pop(0)
    message = refused(config, registries)
    assert "tasks.nli.examples.test: has no text in 'te', the language of 'telugu'" in message


def test_the_objective_clm_is_refused_for_an_encoder(config, registries):
    config["strategies"]["mask"]["phases"][0]["objective"] = "clm"
    message = refused(config, registries)
    assert (
        "strategies.mask.phases[0].objective: clm does not fit source 'tiny', a masked" in message
    )


def test_an_adapter_is_refused_for_an_encoder(config, registries):
    config["strategies"]["mask"]["phases"][0]["trainable"] = ["adapter"]
    config["cells"][0] |= {"vocabularies": ["expand-50"], "initializers": ["mean"]}
    assert "mask.phases[0].trainable: an adapter is for causal" in refused(config, registries)


def test_the_objective_mlm_is_refused_for_a_causal_model(config, registries):
    config["sources"]["tiny"]["kind"] = "causal"
    assert "mlm does not fit source 'tiny', a causal" in refused(config, registries)


def test_tasks_that_do_not_fit_the_kind_of_model_are_refused(config, registries):
    config["run_tasks"]["perplexity"] = {}
    message = refused(config, registries)
    assert "config.run_tasks.perplexity: kind 'perplexity' does not fit source 'tiny'" in message
    config["run_tasks"] = {"nli": {}}
    config["cells"].append(
        {**config["cells"][0], "sources": ["stories15m"], "strategies": ["none"]}
    )
    assert "kind 'classification' does not fit source 'stories15m'" in refused(config, registries)
    config["run_tasks"] = {"nli": {"sources": ["tiny"]}}
    study = Plan(config)
    evaluated = {job.wildcards["source"] for job in study.jobs().values()
                 if job.rule == "evaluate"}  # fmt: skip
    assert evaluated == {"tiny"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda task: task.pop("examples"), "tasks.nli: 'examples' is missing"),
        (lambda task: task["examples"].pop("test"), "tasks.nli.examples: 'test' is missing"),
        (lambda task: task["examples"]["train"].update(loader="spreadsheet"), "needs a loader"),
        (lambda task: task["examples"]["test"][0].pop("languages"), "'languages' is missing"),
    ],
)
def test_a_missing_setting_of_a_task_is_named(config, registries, change, message):
    change(config["tasks"]["nli"])
    assert message in refused(config, registries)


def test_the_tasks_of_cw2v_have_its_languages(registries):
    study = study_of_entries(**registries)
    for task in ("xnli", "wikiann", "squad"):
        learned = [part for part in LEARNED_PARTS if getattr(study.tasks[task].examples, part)]
        assert learned == ["train"] if task == "squad" else ["train", "validation"]
        for code in (*learned, "en", "de", "ru", "hi", "ta"):
            text = study.example_settings(task, code)["text"]
            assert "{code}" not in json.dumps(text)


@pytest.fixture(scope="module")
def paper(registries):
    config = read_yaml(ROOT / "config" / "studies" / "cw2v-roberta.yaml")
    return Plan(config)


def test_the_grid_of_cw2v_for_roberta_has_every_row_and_checkpoint(paper):
    assert len(paper.cells) == 1 + 6 * 2
    tasks = {
        rule: [len(job.description["tasks"]) for job in paper.jobs().values() if job.rule == rule]
        for rule in ("evaluate", "evaluate_checkpoint")
    }
    assert tasks["evaluate"] == [3] * 13
    assert tasks["evaluate_checkpoint"] == [3] * 6 * 14  # the fifteenth is the cell itself
    strategy = paper.config["strategies"]["mlm-500m"]
    assert (strategy["batch_sequences"], strategy["learning_rate"]) == (32, 5e-5)  # Appendix G
    assert (strategy["epsilon"], strategy["tokens_per_language"]) == (1e-6, 500_000_000)
    assert strategy["phases"][0]["trainable"] == ["all"]
    wanted = paper.inputs("evaluate", paper.cells[0].wildcards)
    parts = [card.split("/")[-2] for card in wanted if "/examples/xnli/" in card]
    assert set(parts) == {"train", "validation", "en", "hi", "ta", "ru", "de"}
