"""Test sets and examples of a task's own: which a cell is evaluated on, and what is refused."""

import json

import pytest

from tests.workflow.conftest import refused, study_of_entries
from tests.workflow.plan import Plan

AXES = {
    "source": "tiny", "vocabulary": "source", "initializer": "none", "strategy": "none",
    "seed": "0",
}  # fmt: skip


@pytest.fixture
def files(tmp_path):
    """Pairs and questions as a user has them, with a tab or in lines of JSON."""
    for name in ("te", "el"):
        pairs = "".join(f"the {word}\t{name} {word}\n" for word in ("sun", "moon", "sea", "hill"))
        (tmp_path / f"pairs-{name}.tsv").write_text(pairs)
        (tmp_path / f"more-{name}.tsv").write_text(f"a star\t{name} star\n")
    rows = [
        {"question": f"Which {word}?", "context": f"The {word}.", "answers": {"text": [word]}}
        for word in ("sun", "moon", "sea")
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.fixture
def config(miniature, files):
    """A cell with tasks of its own; the group has both languages."""

    def pairs(name):
        path = f"{files}/{name}-{{code}}.tsv"
        return {"loader": "tsv", "path": path, "languages": {"te": "te", "el": "el"}}

    return {
        **miniature,
        "cells": [miniature["cells"][0]],
        "run_tasks": {"mine": {}, "questions": {}},
        "languages": {
            **miniature["languages"],
            "both": {"name": "Both", "group": {"members": ["telugu", "greek"]}},
        },
        "tasks": {
            "mine": {
                "kind": "translation",
                "prompt": "names",
                "shots": 1,
                "max_new_tokens": 4,
                "examples": {
                    "test": [pairs("pairs")],
                    "shots": [pairs("more")],
                },
            },
            "questions": {
                "kind": "question_answering",
                "shots": 1,
                "max_new_tokens": 4,
                "examples": {
                    "test": [
                        {
                            "loader": "jsonl",
                            "path": f"{files}/questions.jsonl",
                            "languages": ["te", "el", "en"],
                        }
                    ]
                },
            },
        },
    }


def study_of(config, registries):
    return Plan(config)


def evaluated(config, registries, task, language="telugu"):
    """How a cell's job describes a task, and what the task reads."""
    job = study_of(config, registries).described("evaluate", {**AXES, "language": language})
    return job["tasks"][task], job["inputs"]["read"][task]


def test_a_cell_is_evaluated_on_the_texts_of_its_language(config, registries):
    given, read = evaluated(config, registries, "mine")
    folder = "results/examples/mine"
    assert read["test_sets"] == {
        "tests": {"telugu": f"{folder}/test-te"},
        "shots": {"telugu": f"{folder}/shots-te"},
    }
    assert given["tested"] == {"telugu": "te"}
    assert given["settings"] == {
        "kind": "translation", "prompt": "names", "shots": 1, "max_new_tokens": 4,
    }  # fmt: skip
    wanted = study_of(config, registries).inputs("evaluate", {**AXES, "language": "telugu"})
    assert {f"{folder}/test-te/card.json", f"{folder}/shots-te/card.json"} <= {*wanted}


def test_questions_test_english_and_every_language_of_a_group(config, registries):
    given, read = evaluated(config, registries, "questions")
    assert given["tested"] == {"telugu": "te", "english": "en"}
    assert "shots" not in read["test_sets"]
    del config["run_tasks"]["mine"]
    config["cells"] = [{**config["cells"][0], "languages": ["both"]}]
    given, read = evaluated(config, registries, "questions", "both")
    assert given["tested"] == {"telugu": "te", "greek": "el", "english": "en"}
    assert list(read["test_sets"]["tests"]) == ["telugu", "greek", "english"]


def test_a_task_may_test_one_member_of_a_group(config, registries):
    config["cells"] = [{**config["cells"][0], "languages": ["both"]}]
    assert "languages.both: is a group, but task 'mine' tests one" in refused(config, registries)
    config["tasks"]["mine"]["language"] = "greek"
    _, read = evaluated(config, registries, "mine", "both")
    assert read["test_sets"]["tests"] == {"greek": "results/examples/mine/test-el"}


def test_a_text_is_read_by_its_own_name_of_the_language(config, registries, files):
    config["tasks"]["mine"]["examples"]["test"][0]["languages"]["te"] = "el"
    study = study_of(config, registries)
    given = study.described("prepare_examples", {"task": "mine", "part": "test-te"})
    assert given["settings"] == {
        "rows": "pairs", "text": {"loader": "tsv", "path": f"{files}/pairs-el.tsv"},
    }  # fmt: skip
    assert given["outputs"]["folder"] == "results/examples/mine/test-te"
    part = {"task": "mine", "part": "test-te"}
    assert study.inputs("prepare_examples", part) == [f"{files}/pairs-el.tsv"]
    given = study.described("prepare_examples", {"task": "questions", "part": "test-te"})
    assert given["settings"]["columns"]["answers"] == "answers.text"


def test_every_registered_test_set_has_a_text_for_each_language(registries):
    """`{code}` is replaced by the language, and the tests of the papers' languages are there."""
    study = study_of_entries(**registries)
    tasks = study.tasks
    parts = {
        (name, f"{key}-{code}")
        for name, entry in tasks.items()
        for key in ("test", "shots")
        if entry.kind in ("translation", "summarization", "question_answering")
        for text in getattr(entry.examples, key, None) or ()
        for code in text.languages
    }
    assert len(parts) > 500
    for name, part in parts:
        assert "{" not in json.dumps(study.example_settings(name, part)["text"]).strip("{}")
    for code in ("ar", "my", "de", "el", "hi", "ja", "si", "sw", "te", "th"):  # lowres
        assert {(name, f"test-{code}") for name in ("translation-ntrex", "translation-4-shot")} <= (
            parts
        )
    for code in ("de", "ar", "vi", "en"):  # SALT
        assert {("mlqa", f"test-{code}"), ("mlqa", f"shots-{code}"), ("xquad", f"test-{code}")} <= (
            parts
        )


def test_the_real_workflow_evaluates_on_the_test_sets_of_a_user(checkout, config):
    checkout.config = config
    cell = "results/evaluation/tiny/telugu/source/none/none/seed-0"
    tasks = ("mine", "questions")
    records = {task: f"{cell}/{task}/run-0" for task in tasks}
    counted = {task: f"results/corpus/telugu/contamination/{task}" for task in tasks}
    wanted = [f"{cell}/card-miniature.json", *(f"{one}/card.json" for one in counted.values())]
    result = checkout.snakemake("--", *wanted)
    assert result.returncode == 0, result.stderr
    rows, details = {}, {}
    for task, folder in records.items():
        lines = (checkout.folder / folder / "predictions.jsonl").read_text("utf-8").splitlines()
        rows[task] = [json.loads(line) for line in lines]
        record = json.loads((checkout.folder / folder / "record.json").read_text("utf-8"))
        details[task] = record["details"]
    assert [row["source"] for row in rows["mine"]] == ["the sun", "the moon", "the sea", "the hill"]
    assert rows["mine"][0]["prompt"] == "English: the sun\nTelugu:"
    assert details["mine"]["examples"] == [
        {"id": "0001", "text": "English: a star\nTelugu: te star\n"}
    ]
    assert [row["test"] for row in rows["questions"]] == ["telugu"] * 2 + ["english"] * 2
    assert all(row["shots"] == 1 for task in rows.values() for row in task)
    tests = {}
    for task, folder in counted.items():
        record = json.loads((checkout.folder / folder / "record.json").read_text("utf-8"))
        tests[task] = [(row["test"], row["part"], row["texts"]) for row in record["tests"]]
    assert tests["mine"] == [("telugu", "", 4)]
    assert tests["questions"] == [(test, part, 3) for test in ("telugu", "english")
                             for part in ("questions", "contexts")]  # fmt: skip
    assert not checkout.planned("--", *wanted)
