"""Which tests are looked for in which training text: all that cells are scored on, and no corpus
knows of them."""

import json
from copy import deepcopy

import pytest

from workflow.config.registries import load_registries, resolve
from workflow.stages import Study


@pytest.fixture(scope="module")
def registries():
    return load_registries()


@pytest.fixture
def files(tmp_path):
    rows = [{"question": "Which?", "context": "That.", "answers": {"text": ["That"]}}]
    (tmp_path / "asks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.fixture
def config(miniature, files):
    """Questions of the user's own, in Telugu and English, and a group of both languages."""
    texts = {
        "loader": "jsonl",
        "path": f"{files}/asks.jsonl",
        "languages": ["te", "el", "en"],
    }
    return {
        **deepcopy(miniature),
        "run_tasks": {"perplexity": {}, "translation": {}, "speed": {}, "asks": {}},
        "languages": {
            **miniature["languages"],
            "both": {"name": "Both", "group": {"members": ["telugu", "greek"]}},
        },
        "tasks": {
            **miniature["tasks"],
            "asks": {"kind": "question_answering", "examples": {"test": [texts]}},
        },
    }


def study_of(config, registries):
    return Study(resolve(deepcopy(config), registries, require_files=False))


def counted(config, registries):
    """Language and task -> the tests that are looked for."""
    study = study_of(config, registries)
    found = {}
    for record in study.contamination_records():
        *_, language, _, task, _ = record.split("/")
        given = study.described("count_tests", {"language": language, "task": task})
        assert given["inputs"]["text"] == f"results/corpus/{language}/train.txt"
        assert given["outputs"]["file"] == record
        found[language, task] = given["inputs"]["tests"]
    return found


def test_a_task_s_own_tests_are_looked_for_in_the_text_of_each_language_it_asks(config, registries):
    found = counted(config, registries)
    assert found["telugu", "asks"] == {
        "telugu": "results/examples/asks/test-te/test_set.jsonl",
        "english": "results/examples/asks/test-en/test_set.jsonl",
    }
    assert found["greek", "asks"]["greek"] == "results/examples/asks/test-el/test_set.jsonl"
    assert found["telugu", "perplexity"] == {
        "heldout": "results/corpus/telugu/heldout.txt",
        "english": "results/corpus/telugu/english.txt",
    }
    # The corpus counts its own translations when it is made, and speed has no tests.
    assert {task for _, task in found} == {"asks", "perplexity"}


def test_a_task_that_a_language_s_cells_are_not_run_on_is_not_looked_for_there(config, registries):
    config["run_tasks"]["asks"] = {"languages": ["greek"]}
    assert {language for language, task in counted(config, registries) if task == "asks"} == {
        "greek"
    }


def test_the_same_tests_are_looked_for_once(config, registries):
    config["run_tasks"] |= {"perplexity-windows": {}}
    assert ("telugu", "perplexity-windows") not in counted(config, registries)
    config["run_tasks"] |= {"belebele-3-shot": {}, "belebele-5-shot": {}}
    found = counted(config, registries)
    assert found["telugu", "belebele-3-shot"] == {
        "telugu": "results/benchmarks/belebele_tel_Telu",
        "english": "results/benchmarks/belebele_eng_Latn",
    }
    assert ("telugu", "belebele-5-shot") not in found


def test_another_language_s_texts_are_looked_for_where_a_task_names_it(config, registries):
    config["tasks"] |= {"to-greek": {**config["tasks"]["translation-short"],
                                     "language": "greek"}}  # fmt: skip
    config["run_tasks"] = {"to-greek": {}}
    assert counted(config, registries) == {
        ("telugu", "to-greek"): {"greek": "results/corpus/greek/tasks/translation.jsonl"}
    }


def test_a_group_is_searched_for_the_tests_of_each_of_its_languages(config, registries):
    config["cells"] = [{**config["cells"][0], "languages": ["both"]}]
    config["run_tasks"] = {"perplexity": {}, "asks": {}}
    found = counted(config, registries)
    assert list(found["both", "asks"]) == ["telugu", "greek", "english"]
    assert found["both", "perplexity"] == {
        "telugu": "results/corpus/both/members/telugu/heldout.txt",
        "greek": "results/corpus/both/members/greek/heldout.txt",
        "english": "results/corpus/both/english.txt",
    }


def test_a_count_waits_for_its_text_and_its_tests(config, registries):
    study = study_of(config, registries)
    assert study.counted_inputs({"language": "telugu", "task": "asks"}) == [
        "results/corpus/telugu/train.txt",
        "results/corpus/telugu/card.json",
        "results/examples/asks/test-en/card.json",
        "results/examples/asks/test-te/card.json",
    ]
    config["run_tasks"] = {"xnli-0-shot": {"languages": ["greek"]}}
    study = study_of(config, registries)
    assert study.counted_inputs({"language": "greek", "task": "xnli-0-shot"})[1:] == [
        "results/benchmarks/xnli_el/card.json",
        "results/benchmarks/xnli_en/card.json",
        "results/corpus/greek/card.json",
    ]


def test_other_tests_leave_the_corpus_as_it_is(config, registries, files):
    """Another file of a task's tests, or a task more, is nothing to the texts."""

    def upstream(study):
        language = {"language": "telugu"}
        return [study.job("prepare_corpus", language)]

    before = study_of(config, registries)
    changed = deepcopy(config)
    changed["tasks"]["asks"]["examples"]["test"][0]["path"] = f"{files}/more.jsonl"
    changed["run_tasks"]["belebele-5-shot"] = {}
    after = study_of(changed, registries)
    assert upstream(before) == upstream(after)
    part = {"task": "asks", "part": "test-te"}
    assert before.job("prepare_asked", part) != after.job("prepare_asked", part)
    assert len(after.contamination_records()) > len(before.contamination_records())


def test_the_report_reads_every_count(config, registries):
    study = study_of(config, registries)
    assert set(study.contamination_records()) <= set(study.report_dependencies())


def test_examples_are_checked_on_the_sources_that_a_task_is_run_on(config, registries):
    """A language of another source's cells needs no tests."""
    del config["run_tasks"]["perplexity"], config["run_tasks"]["translation"]
    config["tasks"]["asks"]["examples"]["test"][0]["languages"] = ["te", "en"]
    config["sources"]["other"] = dict(config["sources"]["tiny"])
    config["cells"][-1] = {**config["cells"][-1], "sources": ["other"]}
    config["run_tasks"]["asks"] = {"sources": ["tiny"]}
    assert {language for language, task in counted(config, registries) if task == "asks"} == {
        "telugu"
    }
