"""Test data of tasks: languages, test sets, examples, benchmarks and checkpoints.

Tasks can define their own tests in three forms: `examples` of kinds that fine-tune (`train`,
`validation` and `test`), `examples` of kinds that generate (`test` and `shots`), and tasks of
lm-evaluation-harness (`harness`). Each text lists the codes of its `languages`; `{code}` in the
text is replaced by a language's code, or by the name to which `languages` maps it.

Each check raises a `UserError` that names the task and what is missing.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from lexigraft.cells import NO_INITIALIZER
from lexigraft.corpus.local_files import check_files
from lexigraft.errors import UserError, unknown
from lexigraft.evaluation.task_kinds import task_kind
from lexigraft.yaml_files import read_yaml
from workflow.config.training_data import members, used

ENGLISH = "english"
TRAIN = "train"  # the part to train on; test parts are named after their language's code
VALIDATION = "validation"  # the part for choosing the epoch
_PROMPTS = Path(__file__).resolve().parents[2] / "config/prompts"
_PARTS = {"tests": "test", "shots": "shots"}  # names in a job -> names in a task


# ---- which languages and checkpoints -----------------------------------------------------------


def tested_language(config: Mapping[str, Any], task: str, language: str) -> str:
    """The language whose texts a task uses: the one that it names, otherwise the cell's."""
    named = config["tasks"][task].get("language")
    return named.get(language, language) if isinstance(named, Mapping) else named or language


def languages_of(config: Mapping[str, Any], task: str, language: str) -> dict[str, str]:
    """The languages in which a task tests a cell, with those of a group: name -> code."""
    names = members(config, tested_language(config, task, language))
    return {name: config["languages"][name]["code"] for name in names}


def checkpoints_of(config: Mapping[str, Any], task: str, strategy: str) -> range:
    """Numbers of the checkpoints on which a task is run, without the last, the trained cell.

    Empty if the task only runs on trained cells or the strategy retains no other checkpoints.
    """
    selected = config["run_tasks"][task]["checkpoints"]
    return range(1, config["strategies"][strategy]["checkpoints"] if selected else 1)


# ---- tasks that generate: test sets and examples in prompts ------------------------------------


def own_test_codes(config: Mapping[str, Any], task: str, language: str) -> dict[str, str]:
    """The tests of a cell in a task with its own examples: name of the test -> language code.

    Each language of a group by its name, and English if the task has questions in it. Empty for
    tasks without such examples.
    """
    entry = config["tasks"][task]
    kind = task_kind(entry["kind"])
    if not kind.generates or "examples" not in entry:
        return {}
    if not kind.every_language:
        return languages_of(config, task, language)
    return _tests_of(config, task, language, _codes_of(entry["examples"].get("test", ())))


def own_test_parts(
    config: Mapping[str, Any], task: str, language: str
) -> dict[str, dict[str, str]]:
    """The same as parts of the task's examples: `tests` and `shots` -> name -> part.

    Either is missing if the task has none: the corpus, or the tests, are then used instead.
    """
    codes = own_test_codes(config, task, language)
    examples = config["tasks"][task].get("examples") or {}
    return {
        name: {test: f"{key}-{code}" for test, code in codes.items()}
        for name, key in _PARTS.items()
        if codes and key in examples
    }


def own_test_settings(config: Mapping[str, Any], task: str, part: str) -> dict[str, Any]:
    """Settings of the job that reads one part: `rows`, `text`, `repair`; `columns` of questions."""
    entry = config["tasks"][task]
    key, _, code = part.partition("-")
    text = _text_of(entry["examples"][key], code)
    kind = task_kind(entry["kind"])
    not_location = ("languages", "columns", "repair")
    location = {name: value for name, value in text.items() if name not in not_location}
    settings: dict[str, Any] = {"rows": kind.rows, "text": location}
    if "repair" in text:
        settings["repair"] = text["repair"]
    if kind.columns:
        columns = text.get("columns") or entry["examples"].get("columns") or kind.columns
        settings["columns"] = columns
    return settings


# ---- tasks that fine-tune: examples ------------------------------------------------------------


def example_parts(config: Mapping[str, Any], task: str, language: str) -> dict[str, str]:
    """The tests of a cell in a task that fine-tunes: name of the test -> part of the examples.

    Empty for other tasks.
    """
    entry = config["tasks"][task]
    if not task_kind(entry["kind"]).fine_tunes:
        return {}
    return _tests_of(config, task, language, _codes_of(entry["examples"]["test"]))


def learned_parts(config: Mapping[str, Any], task: str) -> list[str]:
    """The parts of a task's examples that fine-tuning reads: `train`, and `validation` if any."""
    examples = config["tasks"][task]["examples"]
    return [part for part in (TRAIN, VALIDATION) if part in examples]


def example_settings(config: Mapping[str, Any], task: str, part: str) -> dict[str, Any]:
    """Settings of the job that reads one part of a task's examples.

    They are the form of its `rows`, and `text`, `columns` and `labels`.
    """
    examples = config["tasks"][task]["examples"]
    learned = part in (TRAIN, VALIDATION)
    text = examples[part] if learned else _text_of(examples["test"], part)
    not_location = ("languages", "columns", "labels")
    return {
        "rows": task_kind(config["tasks"][task]["kind"]).rows,
        "columns": text.get("columns") or examples["columns"],
        "labels": text.get("labels") or examples.get("labels"),
        "text": {key: value for key, value in text.items() if key not in not_location},
    }


# ---- tasks of lm-evaluation-harness ------------------------------------------------------------


def benchmarks_of(config: Mapping[str, Any], task: str, language: str) -> dict[str, str]:
    """The tests of a cell in a task of the harness: name of the test -> name of the benchmark.

    Only languages in which the harness has the task. Empty for other kinds of tasks. A benchmark is
    named after the harness's task, plus a digest of its data if the task's entry defines some, so
    that one name stands for one setting.
    """
    entry = config["tasks"][task]
    if task_kind(entry["kind"]).tests != "benchmark":
        return {}
    known = _codes_of(entry["harness"])
    tests = _tests_of(config, task, language, known).items()
    return {test: _benchmark_name(_benchmark(entry, code)) for test, code in tests if code in known}


def benchmark_settings(config: Mapping[str, Any], benchmark: str) -> dict[str, Any]:
    """Settings of the job that prepares a benchmark: the harness's `task`, its `folder`, `data`."""
    return next(
        settings for _, settings in _benchmarks(config) if _benchmark_name(settings) == benchmark
    )


# ---- checks ------------------------------------------------------------------------------------


def check_tested(config: Mapping[str, Any]) -> None:
    """Check that the selections of tasks match cells, and that languages and checkpoints exist."""
    known = {
        "languages": used(config, "languages"),
        "sources": [*config["sources"]],
        "initializers": [NO_INITIALIZER, *config["initializers"]],
        "strategies": [*config["strategies"]],
    }
    for task, selection in config["run_tasks"].items():
        for axis, names in known.items():
            for name in selection[axis] or ():
                if name not in names:
                    among = "used in any cell" if axis == "languages" else "known"
                    raise unknown(f"config.run_tasks.{task}.{axis}", name, names, among)
        run_on = used(config, "languages", task=task)
        if not run_on:
            raise UserError(
                f"config.run_tasks.{task}: no cell of the study matches all of its selections; "
                "correct them, or remove the task"
            )
        named = config["tasks"][task].get("language")
        missing = [name for name in run_on if isinstance(named, Mapping) and name not in named]
        if missing:
            raise UserError(
                f"tasks.{task}.language: has no entry for '{missing[0]}'; add one, or leave the "
                f"language out of config.run_tasks.{task}.languages"
            )
        for language in (tested_language(config, task, name) for name in run_on):
            if language not in config["languages"]:
                raise unknown(f"tasks.{task}.language", language, config["languages"])
        has_checkpoints = any(
            checkpoints_of(config, task, name) for name in used(config, "strategies")
        )
        if selection["checkpoints"] and not has_checkpoints:
            raise UserError(
                f"config.run_tasks.{task}.checkpoints: no strategy of this study keeps "
                "checkpoints; set `checkpoints: 5`, for example, in one of them"
            )


def check_examples(config: Mapping[str, Any]) -> None:
    """Check that tasks have tests and examples for every language on which they are run."""
    for task in config["run_tasks"]:
        kind = config["tasks"][task]["kind"]
        takes = task_kind(kind).fine_tunes or task_kind(kind).generates
        if "examples" in config["tasks"][task] and not takes:
            raise UserError(
                f"tasks.{task}.examples: tasks of kind '{kind}' do not use examples; remove them"
            )
    for task, language in (*_run_on(config, "fine_tunes"), *_run_on(config, "generates")):
        entry = config["tasks"][task]
        codes = example_parts(config, task, language) or own_test_codes(config, task, language)
        for key in (key for key in _PARTS.values() if key in entry["examples"]):
            known = _codes_of(entry["examples"][key])
            for name in (name for name, code in codes.items() if code not in known):
                raise UserError(
                    f"tasks.{task}.examples.{key}: has no text in '{codes[name]}', the language of "
                    f"'{name}'; add one, or leave it out of config.run_tasks.{task}.languages"
                )
        if "shots" in entry["examples"] and not entry.get("shots"):
            raise UserError(
                f"tasks.{task}.shots: missing, but examples.shots is set; specify how many of them "
                "precede a question"
            )


def check_local_examples(config: Mapping[str, Any]) -> None:
    """Check that the local files of examples and test sets exist and are not empty."""
    read: dict[tuple[str, str], dict[str, Any]] = {}
    for task, language in _run_on(config, "fine_tunes"):
        tested = example_parts(config, task, language).values()
        for part in (*learned_parts(config, task), *tested):
            read[task, part] = example_settings(config, task, part)
    for task, language in _run_on(config, "generates"):
        for parts in own_test_parts(config, task, language).values():
            for part in parts.values():
                read[task, part] = own_test_settings(config, task, part)
    for (task, part), settings in read.items():
        check_files({"text": settings["text"]}, f"tasks.{task}.examples ({part})")


def check_prompts(config: Mapping[str, Any]) -> None:
    """Check that the prompts that tasks name exist."""
    for task in config["run_tasks"]:
        entry = config["tasks"][task]
        kind, name = task_kind(entry["kind"]), entry.get("prompt")
        if name is None or not kind.built_in_prompts or name in kind.built_in_prompts:
            continue
        named = _named_prompts(f"{kind.prompts}.yaml")
        if name not in named:
            among = f"in config/prompts/{kind.prompts}.yaml"
            raise unknown(f"tasks.{task}.prompt", name, [*kind.built_in_prompts, *named], among)


@cache
def _named_prompts(file: str) -> list[str]:
    return list(read_yaml(_PROMPTS / file)["named"])


def check_benchmarks(config: Mapping[str, Any]) -> None:
    """Check that tasks of the harness cover every language, and have one folder in all tasks."""
    for task in config["run_tasks"]:
        entry = config["tasks"][task]
        if task_kind(entry["kind"]).tests != "benchmark":
            continue
        for language in used(config, "languages", task=task):
            tested = {*languages_of(config, task, language).values()}
            if not tested & _codes_of(entry["harness"]):
                raise UserError(
                    f"tasks.{task}.harness: has no task in the language of '{language}'; leave it "
                    f"out of config.run_tasks.{task}.languages"
                )
    by_name: dict[str, tuple[str, dict[str, Any]]] = {}
    for task, settings in _benchmarks(config):
        first_task, first_settings = by_name.setdefault(_benchmark_name(settings), (task, settings))
        if settings != first_settings:
            raise UserError(
                f"tasks.{task}: {settings['task']} has a different folder in task "
                f"'{first_task}'; use the same folder for both"
            )


# ---- texts by the codes of languages -----------------------------------------------------------


def _tests_of(
    config: Mapping[str, Any], task: str, language: str, known: Collection[str]
) -> dict[str, str]:
    """The tests of a cell in a task, in each language and in English: name -> code.

    English is included, under the name `english`, if the task knows its code.
    """
    codes = languages_of(config, task, language)
    tests = {ENGLISH if code == "en" else name: code for name, code in codes.items()}
    if "en" in known:
        tests.setdefault(ENGLISH, "en")
    return tests


def _codes_of(texts: Iterable[Mapping[str, Any]]) -> set[str]:
    """The codes of the languages of some texts."""
    return {code for text in texts for code in text["languages"]}


def _text_of(texts: Iterable[Mapping[str, Any]], code: str) -> dict[str, Any]:
    """The first text for a language, with `{code}` replaced by the text's name for it."""
    text = next(text for text in texts if code in text["languages"])
    name = text["languages"][code] if isinstance(text["languages"], Mapping) else code

    def replace_code(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("{code}", name)
        return [replace_code(part) for part in value] if isinstance(value, list) else value

    return {key: replace_code(value) for key, value in text.items()}


def _run_on(config: Mapping[str, Any], declared: str) -> list[tuple[str, str]]:
    """Every task with its own examples, with each language on which it is run.

    Only tasks whose kind has the attribute `declared`, such as `generates`.
    """
    return [
        (task, language)
        for task in config["run_tasks"]
        if "examples" in config["tasks"][task]
        and getattr(task_kind(config["tasks"][task]["kind"]), declared)
        for language in used(config, "languages", task=task)
    ]


def _benchmarks(config: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The study's tasks that use the harness, with the settings of the jobs that prepare them."""
    for task in config["run_tasks"]:
        entry = config["tasks"][task]
        if task_kind(entry["kind"]).tests == "benchmark":
            for code in _codes_of(entry["harness"]):
                yield task, _benchmark(entry, code)


def _benchmark(entry: Mapping[str, Any], code: str) -> dict[str, Any]:
    """The harness's task for a language, the folder of its definition, and the entry's data."""
    benchmark = _text_of(entry["harness"], code)
    return {"task": benchmark["task"], "folder": benchmark["folder"], "data": entry.get("data")}


def _benchmark_name(settings: Mapping[str, Any]) -> str:
    if settings["data"] is None:
        return str(settings["task"])
    location = json.dumps([settings["folder"], settings["data"]])
    return f"{settings['task']}-{sha256(location.encode()).hexdigest()[:8]}"
