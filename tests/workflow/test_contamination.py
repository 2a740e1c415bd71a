"""Which test sets are searched for in which training text; the text does not depend on them."""

import json
from copy import deepcopy

import pytest

from tests.workflow.plan import Plan
from workflow.inputs.corpus import searched


@pytest.fixture
def files(tmp_path):
    rows = [{"question": "Which?", "context": "That.", "answers": {"text": ["That"]}}]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.fixture
def config(miniature, files):
    """Questions of the user's own, in Telugu and English, and a group of both languages."""
    texts = {
        "loader": "jsonl",
        "path": f"{files}/questions.jsonl",
        "languages": ["te", "el", "en"],
    }
    return {
        **deepcopy(miniature),
        "run_tasks": {"perplexity": {}, "translation": {}, "speed": {}, "questions": {}},
        "languages": {
            **miniature["languages"],
            "both": {"name": "Both", "group": {"members": ["telugu", "greek"]}},
        },
        "tasks": {
            **miniature["tasks"],
            "questions": {"kind": "question_answering", "examples": {"test": [texts]}},
        },
    }


def study_of(config, registries):
    return Plan(config)


def counts_of(study):
    """Cards of the jobs that search training text."""
    return [card for card, job in study.jobs().items() if job.rule == "count_tests"]


def counted(config, registries):
    """Language and task -> the test sets that are searched for."""
    study = study_of(config, registries)
    found = {}
    for language, task in searched(study):
        given = study.described("count_tests", {"language": language, "task": task})
        assert given["inputs"]["text"] == f"results/corpus/{language}"
        folder = f"results/corpus/{language}/contamination/{task}"
        assert given["outputs"]["folder"] == folder
        assert f"{folder}/card.json" in counts_of(study)
        found[language, task] = given["inputs"]["tests"]
    return found


def test_test_sets_are_searched_for_in_the_text_of_each_language(config, registries):
    found = counted(config, registries)
    assert found["telugu", "questions"] == {
        "telugu": "results/examples/questions/test-te/test_set.jsonl",
        "english": "results/examples/questions/test-en/test_set.jsonl",
    }
    assert (
        found["greek", "questions"]["greek"] == "results/examples/questions/test-el/test_set.jsonl"
    )
    assert found["telugu", "perplexity"] == {
        "heldout": "results/corpus/telugu/heldout.txt",
        "english": "results/corpus/telugu/english.txt",
    }
    # The corpus counts its own translations itself, and speed has no tests.
    assert {task for _, task in found} == {"questions", "perplexity"}


def test_equal_test_sets_are_searched_for_once(config, registries):
    config["run_tasks"] |= {"perplexity-windows": {}}
    assert ("telugu", "perplexity-windows") not in counted(config, registries)
    config["run_tasks"] |= {"belebele-3-shot": {}, "belebele-5-shot": {}}
    found = counted(config, registries)
    assert found["telugu", "belebele-3-shot"] == {
        "telugu": "results/benchmarks/belebele_tel_Telu",
        "english": "results/benchmarks/belebele_eng_Latn",
    }
    assert ("telugu", "belebele-5-shot") not in found


def test_a_group_is_searched_for_the_tests_of_each_of_its_languages(config, registries):
    config["cells"] = [{**config["cells"][0], "languages": ["both"]}]
    config["run_tasks"] = {"perplexity": {}, "questions": {}}
    found = counted(config, registries)
    assert list(found["both", "questions"]) == ["telugu", "greek", "english"]
    assert found["both", "perplexity"] == {
        "telugu": "results/corpus/both/members/telugu/heldout.txt",
        "greek": "results/corpus/both/members/greek/heldout.txt",
        "english": "results/corpus/both/english.txt",
    }


def test_a_count_waits_for_its_text_and_its_tests(config, registries):
    study = study_of(config, registries)
    assert set(study.inputs("count_tests", {"language": "telugu", "task": "questions"})) == {
        "results/corpus/telugu/card.json",
        "results/examples/questions/test-en/card.json",
        "results/examples/questions/test-te/card.json",
    }
    config["run_tasks"] = {"xnli-0-shot": {"languages": ["greek"]}}
    study = study_of(config, registries)
    assert set(study.inputs("count_tests", {"language": "greek", "task": "xnli-0-shot"})) == {
        "results/benchmarks/xnli_el/card.json",
        "results/benchmarks/xnli_en/card.json",
        "results/corpus/greek/card.json",
    }


def test_examples_are_checked_on_the_sources_that_a_task_is_run_on(config, registries):
    """A language of another source's cells needs no tests."""
    del config["run_tasks"]["perplexity"], config["run_tasks"]["translation"]
    config["tasks"]["questions"]["examples"]["test"][0]["languages"] = ["te", "en"]
    config["sources"]["other"] = dict(config["sources"]["tiny"])
    config["cells"][-1] = {**config["cells"][-1], "sources": ["other"]}
    config["run_tasks"]["questions"] = {"sources": ["tiny"]}
    assert {language for language, task in counted(config, registries) if task == "questions"} == {
        "telugu"
    }
