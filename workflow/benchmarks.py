"""Tasks of lm-evaluation-harness: which of them test which languages, and where their data is from.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from lexigraft.errors import UserError
from lexigraft.evaluation.task_kinds import task_kind
from workflow.task_examples import codes_of, languages_of, tests_of, text_of

# Keys of such a task that the rule reads which prepares it, and the task itself does not.
PREPARED = ("harness", "data")


def benchmarks_of(config: Mapping[str, Any], task: str, language: str) -> dict[str, str]:
    """What a task asks a cell of a language: name of the test -> the harness's task.

    Each language of a group that the harness has the task in, by its name; and English, if it has
    it in English. None for other kinds of task.
    """
    entry = config["tasks"][task]
    if task_kind(entry["kind"]).tests != "benchmark":
        return {}
    known = codes_of(entry["harness"])
    tests = tests_of(config, task, language, known)
    return {test: _named(entry, code)["task"] for test, code in tests.items() if code in known}


def benchmark_settings(config: Mapping[str, Any], benchmark: str) -> dict[str, Any]:
    """What the job that prepares a task of the harness is told: `task`, `folder`, `data`."""
    return next(settings for _, settings in _benchmarks(config) if settings["task"] == benchmark)


def check_benchmarks(config: Mapping[str, Any]) -> None:
    """Check that tasks of the harness fit the languages of their cells, and each other.

    Raises
    ------
    UserError
        A task has nothing of a language, or two tasks name one benchmark with other data.
    """
    for task, wanted in config["run_tasks"].items():
        entry = config["tasks"][task]
        if task_kind(entry["kind"]).tests != "benchmark":
            continue
        for language in dict.fromkeys(
            name for block in config["cells"] for name in block["languages"]
        ):
            if wanted["languages"] is not None and language not in wanted["languages"]:
                continue
            tested = languages_of(config, task, language)
            if not {*tested.values()} & codes_of(entry["harness"]):
                raise UserError(
                    f"tasks.{task}.harness: no task of the language of '{language}'; leave it out "
                    f"of config.run_tasks.{task}.languages"
                )
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for task, settings in _benchmarks(config):
        other, same = found.setdefault(settings["task"], (task, settings))
        if settings != same:
            raise UserError(
                f"tasks.{task}: {settings['task']} has another folder or other data than in task "
                f"'{other}'; give both the same"
            )


def _benchmarks(config: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tasks of the harness that the study's own ask for, each with what prepares it."""
    for task in config["run_tasks"]:
        entry = config["tasks"][task]
        if task_kind(entry["kind"]).tests == "benchmark":
            for code in codes_of(entry["harness"]):
                yield task, {**_named(entry, code), "data": entry.get("data")}


def _named(entry: Mapping[str, Any], code: str) -> dict[str, str]:
    """The harness's task of a language and the folder of its definition."""
    found, called = text_of(entry["harness"], code)
    return {key: found[key].replace("{code}", called) for key in ("task", "folder")}
