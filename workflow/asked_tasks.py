"""Tasks that ask causal models: test sets and answered examples of their own, and whose they are.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Mapping
from typing import Any

from lexigraft.errors import UserError
from lexigraft.evaluation.task_kinds import task_kind
from workflow.task_examples import (
    check_codes,
    check_text_files,
    codes_of,
    filled,
    languages_of,
    run_on,
    tests_of,
    text_of,
)

_PARTS = {"tests": "test", "shots": "shots"}  # what a job calls them, and what a task does


def asked_codes(config: Mapping[str, Any], task: str, language: str) -> dict[str, str]:
    """What a task with examples of its own asks a cell of a language: name of the test -> code.

    Each language of a group by its name, and English if the task has questions in it. None for
    tasks without such examples.
    """
    entry = config["tasks"][task]
    kind = task_kind(entry["kind"])
    if not kind.generates or "examples" not in entry:
        return {}
    if not kind.every_language:
        return languages_of(config, task, language)
    return tests_of(config, task, language, codes_of(entry["examples"].get("test", ())))


def asked_parts(config: Mapping[str, Any], task: str, language: str) -> dict[str, dict[str, str]]:
    """The same as parts of the task's examples: `tests` and `shots` -> name -> part.

    Either is left out where the task has none: its corpus, or its tests, then serve for it.
    """
    codes = asked_codes(config, task, language)
    examples = config["tasks"][task].get("examples") or {}
    return {
        name: {test: f"{key}-{code}" for test, code in codes.items()}
        for name, key in _PARTS.items()
        if codes and key in examples
    }


def asked_settings(config: Mapping[str, Any], task: str, part: str) -> dict[str, Any]:
    """What the job that reads one part is told: `kind`, `text`, `repair`; of questions `columns`.

    `{code}` in a text of several languages stands for the code of each, or for what its
    `languages` say that the text calls it.
    """
    entry = config["tasks"][task]
    key, _, code = part.partition("-")
    text, called = text_of(entry["examples"][key], code)
    own = ("languages", "columns", "repair")
    settings = {
        "kind": entry["kind"],
        "text": {name: filled(value, called) for name, value in text.items() if name not in own},
    }
    if "repair" in text:
        settings["repair"] = text["repair"]
    if columns := task_kind(entry["kind"]).columns:
        settings["columns"] = text.get("columns") or entry["examples"].get("columns") or {**columns}
    return settings


def check_asked_tasks(config: Mapping[str, Any]) -> None:
    """Check that tasks have tests, and examples, of every language that they are run on.

    Raises
    ------
    UserError
        Naming the task and what it lacks.
    """
    for task, language in run_on(config, "generates"):
        entry = config["tasks"][task]
        for key in (key for key in _PARTS.values() if key in entry["examples"]):
            check_codes(config, task, key, asked_codes(config, task, language))
        if "shots" in entry["examples"] and not entry.get("shots"):
            raise UserError(
                f"tasks.{task}.shots: missing, but there are examples.shots; say how many of them "
                "stand before a question"
            )


def check_local_asked(config: Mapping[str, Any]) -> None:
    """Check that the local files of test sets and examples exist.

    Raises
    ------
    UserError
        Naming the key and the path of the first one that is missing or empty.
    """
    for task, language in run_on(config, "generates"):
        for parts in asked_parts(config, task, language).values():
            for part in parts.values():
                check_text_files(task, part, asked_settings(config, task, part)["text"])
