"""Tasks with tests and examples of their own: what a cell is asked, and what is refused."""

import json

import pytest

from lexigraft.errors import UserError
from workflow.config.registries import ROOT, load_registries, read_yaml, resolve
from workflow.stages import Study

CELL = {
    "source": "tiny", "vocabulary": "source", "initializer": "none", "strategy": "none",
    "seed": "0", "run": "0",
}  # fmt: skip


@pytest.fixture(scope="module")
def registries():
    return load_registries()


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
    (tmp_path / "asks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
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
        "run_tasks": {"mine": {}, "asks": {}},
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
            "asks": {
                "kind": "question_answering",
                "shots": 1,
                "max_new_tokens": 4,
                "examples": {
                    "test": [
                        {
                            "loader": "jsonl",
                            "path": f"{files}/asks.jsonl",
                            "languages": ["te", "el", "en"],
                        }
                    ]
                },
            },
        },
    }


def asked(config, registries, task, language="telugu"):
    study = Study(resolve(config, registries))
    return study.described("evaluate", {**CELL, "language": language, "task": task})


def refused(config, registries):
    with pytest.raises(UserError) as error:
        resolve(config, registries)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_cell_is_asked_its_language_s_part_of_each_text(config, registries):
    given = asked(config, registries, "mine")
    folder = "results/examples/mine"
    assert given["inputs"]["test_sets"] == {
        "tests": {"telugu": f"{folder}/test-te"},
        "shots": {"telugu": f"{folder}/shots-te"},
    }
    assert given["tested"] == {"telugu": "te"}
    assert given["settings"] == {
        "kind": "translation", "prompt": "names", "shots": 1, "max_new_tokens": 4,
    }  # fmt: skip
    study = Study(resolve(config, registries))
    wanted = study.examples_cards({**CELL, "language": "telugu", "task": "mine"})
    assert wanted == [f"{folder}/test-te/card.json", f"{folder}/shots-te/card.json"]


def test_questions_are_asked_in_english_too_and_in_every_language_of_a_group(config, registries):
    given = asked(config, registries, "asks")
    assert given["tested"] == {"telugu": "te", "english": "en"}
    assert "shots" not in given["inputs"]["test_sets"]
    del config["run_tasks"]["mine"]
    config["cells"] = [{**config["cells"][0], "languages": ["both"]}]
    given = asked(config, registries, "asks", "both")
    assert given["tested"] == {"telugu": "te", "greek": "el", "english": "en"}
    assert list(given["inputs"]["test_sets"]["tests"]) == ["telugu", "greek", "english"]


def test_a_member_of_a_group_can_be_asked_alone(config, registries):
    config["cells"] = [{**config["cells"][0], "languages": ["both"]}]
    assert "languages.both: a group, but task 'mine' tests one" in refused(config, registries)
    config["tasks"]["mine"]["language"] = "greek"
    given = asked(config, registries, "mine", "both")
    assert given["inputs"]["test_sets"]["tests"] == {"greek": "results/examples/mine/test-el"}


def test_a_part_is_read_from_its_text_and_what_that_calls_the_language(config, registries, files):
    config["tasks"]["mine"]["examples"]["test"][0]["languages"]["te"] = "el"
    study = Study(resolve(config, registries))
    given = study.described("prepare_asked", {"task": "mine", "part": "test-te"})
    assert given["settings"] == {
        "kind": "translation", "text": {"loader": "tsv", "path": f"{files}/pairs-el.tsv"},
    }  # fmt: skip
    assert given["outputs"]["folder"] == "results/examples/mine/test-te"
    assert study.asked_inputs({"task": "mine", "part": "test-te"}) == [f"{files}/pairs-el.tsv"]
    given = study.described("prepare_asked", {"task": "asks", "part": "test-te"})
    assert given["settings"]["columns"]["answers"] == "answers.text"


def test_a_test_set_of_its_own_needs_no_parallel_text(config, registries):
    config["languages"]["telugu"] = {
        **config["languages"]["telugu"], "parallel": None,
        "english": {"loader": "text", "paths": config["languages"]["greek"]["text"]["paths"]},
    }  # fmt: skip
    resolve(config, registries)
    del config["tasks"]["mine"]["examples"]["test"]
    assert "languages.telugu.parallel: missing, but task 'mine'" in refused(config, registries)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t["mine"]["examples"]["shots"][0]["languages"].pop("te"),
         "tasks.mine.examples.shots: none of 'te', the language of 'telugu'"),
        (lambda t: t["asks"]["examples"]["test"][0].update(languages=["hi"]),
         "tasks.asks.examples.test: none of 'te', the language of 'telugu'"),
        (lambda t: t["mine"].pop("shots"), "tasks.mine.shots: missing, but there are"),
        (lambda t: t["mine"].update(engine="vllm", beams=5), "tasks.mine.beams: vLLM is greedy"),
        (lambda t: t["mine"]["examples"]["test"][0].update(path="no/such.tsv"),
         "tasks.mine.examples (test-te).text.path: no/such.tsv: there is no such file"),
        (lambda t: t["mine"].update(examples={}), "tasks.mine.examples: "),
        (lambda t: t["mine"]["examples"]["test"][0].pop("languages"),
         "tasks.mine.examples.test[0]: 'languages' is missing"),
        (lambda t: t["mine"]["examples"]["test"][0].update(loader="squad"),
         "tasks.mine.examples.test[0]: needs a loader: tsv, files, jsonl, parquet or datasets"),
        (lambda t: t["asks"].pop("examples"), "tasks.asks: 'examples' is missing"),
        (lambda t: t["asks"]["examples"]["test"][0].update(loader="tsv"),
         "tasks.asks.examples.test[0]: needs a loader: squad, jsonl, parquet or datasets"),
        (lambda t: t["asks"]["examples"]["test"][0].update(languages=["Telugu"]), "ISO 639 codes"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(config, registries, change, message):
    change(config["tasks"])
    assert message in refused(config, registries)


def test_every_entry_of_the_registry_reads_its_text_of_each_language(registries):
    """What stands for `{code}` is filled in, and the tests of the papers' languages are there."""
    from workflow.config.task_data import own_test_settings

    tasks = registries["tasks"]
    parts = {
        (name, f"{key}-{code}")
        for name, entry in tasks.items()
        for key in ("test", "shots")
        if entry["kind"] in ("translation", "summarization", "question_answering")
        for text in entry.get("examples", {}).get(key, ())
        for code in text["languages"]
    }
    assert len(parts) > 500
    for name, part in parts:
        assert "{" not in json.dumps(own_test_settings(registries, name, part)["text"]).strip("{}")
    for code in ("ar", "my", "de", "el", "hi", "ja", "si", "sw", "te", "th"):  # paper 000
        assert {(name, f"test-{code}") for name in ("translation-ntrex", "translation-4-shot")} <= (
            parts
        )
    for code in ("de", "ar", "vi", "en"):  # paper 002
        assert {("mlqa", f"test-{code}"), ("mlqa", f"shots-{code}"), ("xquad", f"test-{code}")} <= (
            parts
        )


@pytest.fixture(scope="module")
def studies(registries):
    return {
        name: Study(
            resolve(
                read_yaml(ROOT / "config" / "studies" / f"{name}.yaml"),
                registries,
                require_files=False,
            )
        )
        for name in ("vocadt", "salt", "cw2v")
    }


def test_paper_001_s_models_translate_after_five_examples_before_alma(studies):
    study = studies["vocadt"]
    for code in ("sw", "id", "et", "ht", "ko", "el", "ru", "bg", "uk", "kk"):
        for task in (f"en-{code}-5-shot", f"{code}-en-5-shot"):
            entry, wanted = study.config["tasks"][task], study.config["run_tasks"][task]
            assert (entry["shots"], entry["prompt"], entry["max_new_tokens"]) == (5, "names", 256)
            assert not any("alma" in name for name in wanted["strategies"])
            zero_shot = study.config["run_tasks"][task.removesuffix("-5-shot")]
            assert wanted["languages"] == zero_shot["languages"]
            [language] = {cell.language for cell in study.cells} & {f"madlad-{code}"}
            cards = study.examples_cards({**CELL, "task": task, "language": language})
            assert cards == [f"results/examples/{task}/shots-{code}/card.json"]


def test_paper_002_s_gemma_is_asked_in_both_languages_and_across_them(studies):
    study = studies["salt"]
    for task in ("mlqa", "xquad", "mlqa-english-text", "mlqa-english-question"):
        assert study.config["tasks"][task]["shots"] == 3
        assert study.config["run_tasks"][task]["sources"] == ["gemma-2b"]
        cards = study.examples_cards({**CELL, "task": task, "language": "vi-wiki"})
        tested = {card.split("/")[-2] for card in cards if "/test-" in card}
        assert tested == ({"test-vi"} if "english" in task else {"test-vi", "test-en"})


def test_paper_004_s_models_are_asked_in_every_language_at_every_checkpoint(studies):
    study = studies["cw2v"]
    asks = [name for name, entry in study.config["tasks"].items()
            if name in study.config["run_tasks"] and "examples" in entry]  # fmt: skip
    assert len(asks) == 1 + 4 + 4 + 4
    records = study.checkpoint_records()
    assert {study.config["tasks"][task]["shots"] for task in asks} == {4}
    for task in asks:
        assert sum(f"/cpt/seed-0/{task}/" in record for record in records) == 6 * 4
    cards = study.examples_cards({**CELL, "task": "questions-4-shot", "language": "cw2v-mix"})
    assert {card.split("/")[-2] for card in cards} == {
        f"test-{code}" for code in ("en", "hi", "ta", "ru", "de")
    }


def test_the_real_workflow_asks_what_the_user_brought(checkout, config):
    checkout.config = config
    records = {
        task: f"results/evaluation/tiny/telugu/source/none/none/seed-0/{task}/run-0"
        for task in ("mine", "asks")
    }
    counted = {task: f"results/corpus/telugu/contamination/{task}" for task in ("mine", "asks")}
    wanted = [f"{folder}/record.json" for folder in (*records.values(), *counted.values())]
    result = checkout.snakemake(*wanted)
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
        {"id": "0001", "text": "English: a star\nTelugu: te star\n\n"}
    ]
    assert [row["test"] for row in rows["asks"]] == ["telugu"] * 2 + ["english"] * 2
    assert all(row["shots"] == 1 for task in rows.values() for row in task)
    tests = {}
    for task, folder in counted.items():
        record = json.loads((checkout.folder / folder / "record.json").read_text("utf-8"))
        tests[task] = [(row["test"], row["part"], row["texts"]) for row in record["tests"]]
    assert tests["mine"] == [("telugu", "", 4)]
    assert tests["asks"] == [(test, part, 3) for test in ("telugu", "english")
                             for part in ("questions", "contexts")]  # fmt: skip
    assert not checkout.planned(*wanted)
