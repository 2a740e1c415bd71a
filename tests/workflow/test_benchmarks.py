"""Multiple choice in a study: which of the harness's tasks test a cell, and when again."""

import json
from contextlib import chdir
from copy import deepcopy
from pathlib import Path

import pytest

from lexigraft.evaluation.harness.benchmark_state import new_state
from lexigraft.evaluation.learned.checkpoint import STATE
from tests.workflow.conftest import (
    REPOSITORY,
    benchmarks_of,
    copy_project,
    open_study,
    refused,
    study_of_entries,
)
from tests.workflow.plan import Plan
from workflow.config.registries import resolve

XNLI = {"languages": ["el", "en"], "folder": "xnli", "task": "xnli_{code}"}
AXES = {
    "source": "tiny", "language": "telugu", "vocabulary": "source", "initializer": "none",
    "strategy": "none", "seed": "0",
}  # fmt: skip


@pytest.fixture
def config(miniature):
    """One cell of Telugu, tested in it by a task of the test's own; and a group with Greek."""
    config = deepcopy(miniature)
    config["cells"] = [
        {"sources": ["tiny"], "languages": ["telugu"], "vocabularies": ["source"],
         "initializers": ["none"], "strategies": ["none"]}
    ]  # fmt: skip
    config["languages"]["both"] = {"name": "Both", "group": {"members": ["telugu", "greek"]}}
    config["tasks"]["choose"] = {
        "kind": "multiple_choice",
        "harness": [
            {"languages": {"te": "tel_Telu"}, "folder": "belebele", "task": "belebele_{code}"},
            XNLI,
        ],
        "shots": 3,
    }
    config["run_tasks"] = {"choose": {}}
    return config


def study_of(config, registries):
    return Plan(config)


def test_a_cell_is_tested_in_its_language_and_in_english(config, registries):
    config["run_tasks"]["perplexity"] = {}
    study = study_of(config, registries)
    given = study.described("evaluate", AXES)
    assert given["inputs"]["read"]["choose"]["benchmarks"] == {
        "telugu": "results/benchmarks/belebele_tel_Telu", "english": "results/benchmarks/xnli_en",
    }  # fmt: skip
    # Where its data comes from is no matter of the task itself.
    assert given["tasks"]["choose"]["settings"] == {"kind": "multiple_choice", "shots": 3}
    assert {
        "results/benchmarks/belebele_tel_Telu/card.json", "results/benchmarks/xnli_en/card.json",
    } <= {*study.inputs("evaluate", AXES)}  # fmt: skip
    assert "benchmarks" not in given["inputs"]["read"]["perplexity"]


def test_a_group_is_tested_in_the_languages_that_the_harness_has(config, registries):
    config["cells"][0]["languages"] = ["both"]
    config["tasks"]["choose"]["harness"].pop(0)
    found = benchmarks_of(resolve(config, registries), "choose", "both")
    assert found == {"greek": "xnli_el", "english": "xnli_en"}


def test_the_job_of_a_benchmark_has_its_definition_and_its_data(
    config, registries, monkeypatch, tmp_path
):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    for data, name in ((None, "belebele_tel_Telu"), ("data/hub", "belebele_tel_Telu-fc62349c")):
        config["tasks"]["choose"] |= {"data": data} if data else {}
        study = study_of(config, registries)
        assert benchmarks_of(study, "choose", "telugu")["telugu"] == name
        given = study.described("prepare_benchmark", {"benchmark": name})
        assert given["settings"] == {
            "task": "belebele_tel_Telu", "folder": "belebele", "data": data,
        }  # fmt: skip
        assert given["outputs"]["folder"] == f"results/benchmarks/{name}"
        assert given["state"]


@pytest.mark.bad_input(
    "config",
    "a benchmark task without data for the language, or with a path outside its folder",
    "rejected with a message that names the key",
)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["tasks"]["choose"]["harness"].pop(0),
         "tasks.choose.harness: has no task in the language of 'telugu'; leave it out of "),
        (lambda c: c["tasks"]["choose"].pop("harness"),
         "tasks.choose: 'harness' is missing"),
        (lambda c: c["tasks"]["choose"]["harness"][0].update(folder="../tasks"),
         "tasks.choose.harness[0].folder: '../tasks' does not match"),
        (lambda c: c["tasks"]["choose"]["harness"][0].update(task="a/b"),
         "tasks.choose.harness[0].task: 'a/b' does not match"),
    ],
)  # fmt: skip
def test_an_invalid_benchmark_is_an_error(config, registries, change, message):
    change(config)
    assert message in refused(config, registries)


def test_a_benchmark_with_other_data_has_a_separate_folder(config, registries):
    """Tasks, of one study or of several, share the data of a benchmark only where it is equal."""

    def folders(**own):
        config["tasks"]["again"] = {**config["tasks"]["choose"], "shots": 0, **own}
        study = study_of(config, registries)
        read = study.described("evaluate", AXES)["inputs"]["read"]
        jobs = study.jobs().values()
        prepared = {job.folder for job in jobs if job.rule == "prepare_benchmark"}
        assert prepared == {
            folder for task in ("choose", "again") for folder in read[task]["benchmarks"].values()
        }
        return read["choose"]["benchmarks"]["telugu"], read["again"]["benchmarks"]["telugu"]

    config["run_tasks"]["again"] = {}
    first, same = folders()
    assert first == same == "results/benchmarks/belebele_tel_Telu"
    (first, one), (_, other) = folders(data="data/one"), folders(data="data/other")
    assert first == "results/benchmarks/belebele_tel_Telu"
    assert len({first, one, other}) == 3
    assert folders(data="data/one")[1] == one


def test_definitions_of_a_user_are_inputs_of_a_benchmark(config, registries):
    config["tasks"]["choose"]["harness"] = [
        {
            "languages": {"te": "el"},
            "folder": "./config/harness/xnli-cw2v",
            "task": "xnli_cw2v_{code}",
        }
    ]
    study = study_of(config, registries)
    given = study.described("prepare_benchmark", {"benchmark": "xnli_cw2v_el"})
    assert given["settings"]["folder"] == "./config/harness/xnli-cw2v"
    assert given["inputs"]["files"] == ["config/harness/xnli-cw2v"]
    assert "config/harness/xnli-cw2v/xnli_cw2v_el.yaml" in study.inputs(
        "prepare_benchmark", {"benchmark": "xnli_cw2v_el"}
    )


def test_a_task_without_data_is_scored_once_the_data_exists(miniature, tmp_path):
    config = deepcopy(miniature)
    config["cells"] = config["cells"][:1]
    config["run_tasks"] = {"choose": {}}
    config["tasks"]["choose"] = {
        "kind": "multiple_choice", "data": "data/hub",
        "harness": [{**XNLI, "languages": ["te"]}],
    }  # fmt: skip
    copy = copy_project(tmp_path / "project")
    copy.config = config
    with chdir(copy.folder):
        study = Plan(config)
        benchmark = benchmarks_of(study, "choose", "telugu")["telugu"]
        given = study.described("prepare_benchmark", {"benchmark": benchmark})
        folder = copy.folder / given["outputs"]["folder"]
        folder.mkdir(parents=True)
        # As the script leaves it that found nothing.
        (folder / STATE).write_text(json.dumps(new_state(given["state"], "data/hub", None, {})))
    copy.pretend_finished()
    assert copy.planned() == set()
    (copy.folder / "data/hub/facebook/xnli").mkdir(parents=True)
    assert copy.planned() == {
        f"Preparing the benchmark {benchmark}",
        "Evaluating telugu source none none seed 0",
        "Searching the training text of telugu for the tests of choose",
        "report",
    }


def test_the_harness_has_every_task_that_the_registry_names(registries):
    import lm_eval.tasks
    from lm_eval.tasks import TaskManager

    root, wanted = Path(lm_eval.tasks.__file__).parent, {}
    for name, entry in registries["tasks"].items():
        for code in (code for one in entry.get("harness", ()) for code in one["languages"]):
            _, settings = study_of_entries(tasks={name: entry}).benchmark(name, code)
            wanted.setdefault(settings["folder"], set()).add(settings["task"])
    assert len(wanted) > 20
    for folder, tasks in wanted.items():
        within = REPOSITORY if folder.startswith("./") else root
        manager = TaskManager(include_path=within / folder, include_defaults=False)
        assert tasks <= set(manager.all_tasks), folder


# ---- the studies of the papers ------------------------------------------------------------------


def languages_of(study, task):
    """The languages of cells that a study runs a task on."""
    return {cell.language for cell in study.cells if task in study.tasks_of(cell)}


def shots_and_metric(study, task):
    entry = study.config["tasks"][task]
    return entry["shots"], entry["metric"]


def test_vocadt_has_its_four_tasks_on_the_languages_of_its_table_1():
    study = open_study("vocadt")
    members = {
        name: [member.removeprefix("madlad-") for member in study.members(name)]
        for name in study.config["languages"]
        if name.startswith("madlad-")
    }
    has = {
        "xnli-0-shot": {"sw", "el", "ru", "bg"}, "xcopa-0-shot": {"sw", "id", "et", "ht"},
        "belebele-5-shot": {"sw", "id", "et", "ht", "ko", "el", "ru", "bg", "uk", "kk"},
        "mmmlu-5-shot": {"id", "ru", "uk"},
    }  # fmt: skip
    used = {cell.language for cell in study.cells}
    for task, codes in has.items():
        expected = {name for name in used if codes & set(members[name])}
        # English alone is asked what the tables have a row `en` of.
        english = set() if task == "xcopa-0-shot" else {"madlad-en"}
        assert languages_of(study, task) == expected | english
        for name in expected:
            tests = benchmarks_of(study, task, name)
            assert {test.removeprefix("madlad-") for test in tests} - {"english"} == codes & set(
                members[name]
            )
        assert shots_and_metric(study, task) == (int(task.split("-")[-2]), "acc")


def test_salt_has_knowledge_without_examples_and_belebele_after_three():
    study = open_study("salt")
    for task, metric in (("arc", "acc_norm"), ("hellaswag", "acc"), ("truthfulqa", "acc_norm")):
        assert shots_and_metric(study, f"{task}-0-shot") == (0, metric)
        assert languages_of(study, f"{task}-0-shot") == {"de-wiki", "ar-wiki", "vi-wiki"}
    assert shots_and_metric(study, "belebele-3-shot") == (3, "acc")
    tests = benchmarks_of(study, "arc-0-shot", "vi-wiki")
    assert tests == {"vi-wiki": "arc_vi", "english": "arc_challenge"}


def test_unifyvocab_has_six_english_tasks_and_four_of_other_languages_with_0_and_5_examples():
    study = open_study("unifyvocab")
    english = ("arc-easy", "boolq", "hellaswag", "openbookqa", "piqa", "winogrande")
    others = {"xnli": "ar de en th ur vi zh", "xcopa-four": "en ta th vi",
              "xstorycloze": "ar en te zh", "xwinograd": "en ja zh"}  # fmt: skip
    for shots in (0, 5):
        for name in english:
            task = f"{name}-{shots}-shot"
            assert shots_and_metric(study, task) == (shots, "acc")
            assert languages_of(study, task) == {"pile"}
            assert list(benchmarks_of(study, task, "pile")) == ["english"]
        for name, codes in others.items():
            task = f"{name}-{shots}-shot"
            assert shots_and_metric(study, task) == (shots, "acc")
            assert languages_of(study, task) == {"culturax-twelve"}
            tests = benchmarks_of(study, task, "culturax-twelve")
            tested = {"culturax-en" if name == "english" else name for name in tests}
            assert tested == {f"culturax-{code}" for code in codes.split()}


def test_cw2v_has_xnli_after_four_examples_at_every_checkpoint():
    study = open_study("cw2v")
    assert shots_and_metric(study, "xnli-4-shot") == (4, "acc")
    tests = benchmarks_of(study, "xnli-4-shot", "cw2v-mix")
    assert set(tests) == {"cw2v-hi", "cw2v-ta", "cw2v-ru", "cw2v-de", "english"}
    evaluated = [
        job.wildcards
        for job in study.jobs().values()
        if job.rule == "evaluate_checkpoint"
        and "xnli-4-shot" in study.described(job.rule, job.wildcards)["tasks"]
    ]
    assert len(evaluated) == 10 * 4  # ten trained cells, four checkpoints before the last


def test_a_task_in_english_alone_tests_every_cell(config, registries):
    config["run_tasks"] = {"ifeval": {}, "mgsm": {}}
    study = study_of(config, registries)
    job = study.described("evaluate", AXES)
    assert {task: read["benchmarks"] for task, read in job["inputs"]["read"].items()} == {
        "ifeval": {"english": "results/benchmarks/ifeval"},
        "mgsm": {
            "telugu": "results/benchmarks/mgsm_native_cot_te",
            "english": "results/benchmarks/mgsm_native_cot_en",
        },
    }
    settings = job["tasks"]["ifeval"]["settings"]
    assert settings["chat"] and settings["metric"] == "prompt_level_strict_acc"
