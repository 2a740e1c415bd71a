"""Tasks that ask causal models: test sets and answered examples of their own, and whose they are.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from lexigraft.corpus.files import check_samples_files
from lexigraft.errors import UserError
from lexigraft.evaluation.registry import GENERATED
from workflow.encoder_tasks import ENGLISH
from workflow.group_checks import members
from workflow.tested import tested_language

# Kinds that ask in every language of a group and in English; the others ask about one language.
_OF_ALL_LANGUAGES = ("question_answering",)
_PARTS = {"tests": "test", "shots": "shots"}  # what a job calls them, and what a task does
# Where the columns of a table of questions are, unless a task says otherwise: as in SQuAD's.
_COLUMNS = {"question": "question", "context": "context", "answers": "answers.text"}


def asked_codes(config: Mapping[str, Any], task: str, language: str) -> dict[str, str]:
    """What a task with examples of its own asks a cell of a language: name of the test -> code.

    Each language of a group by its name, and English if the task has questions in it. None for
    tasks without such examples.
    """
    entry = config["tasks"][task]
    if entry["kind"] not in GENERATED or "examples" not in entry:
        return {}
    languages = members(config, tested_language(config, task, language))
    codes = {name: config["languages"][name]["code"] for name in languages}
    if entry["kind"] not in _OF_ALL_LANGUAGES:
        return codes
    tests = {ENGLISH if code == "en" else name: code for name, code in codes.items()}
    if "en" in _codes(entry, "test"):
        tests.setdefault(ENGLISH, "en")
    return tests


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
    text = next(one for one in entry["examples"][key] if code in one["languages"])
    called = text["languages"][code] if isinstance(text["languages"], Mapping) else code
    own = ("languages", "columns", "repair")
    settings = {
        "kind": entry["kind"],
        "text": {name: _filled(value, called) for name, value in text.items() if name not in own},
    }
    if "repair" in text:
        settings["repair"] = text["repair"]
    if entry["kind"] == "question_answering":
        settings["columns"] = text.get("columns") or entry["examples"].get("columns") or _COLUMNS
    return settings


def check_asked_tasks(config: Mapping[str, Any]) -> None:
    """Check that tasks have tests, and examples, of every language that they are run on.

    Raises
    ------
    UserError
        Naming the task and what it lacks.
    """
    for task, language in _asked(config):
        entry = config["tasks"][task]
        for key in _PARTS.values():
            known = _codes(entry, key)
            for name, code in asked_codes(config, task, language).items():
                if key in entry["examples"] and code not in known:
                    raise UserError(
                        f"tasks.{task}.examples.{key}: none of '{code}', the language of '{name}'; "
                        f"add some, or leave it out of config.run_tasks.{task}.languages"
                    )
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
    for task, language in _asked(config):
        for parts in asked_parts(config, task, language).values():
            for part in parts.values():
                text = asked_settings(config, task, part)["text"]
                check_samples_files({"text": text}, f"tasks.{task}.examples ({part})")


def _asked(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every task with examples of its own and every language that it is run on, once."""
    wanted = {
        task: run
        for task, run in config["run_tasks"].items()
        if config["tasks"][task]["kind"] in GENERATED and "examples" in config["tasks"][task]
    }
    languages = dict.fromkeys(name for block in config["cells"] for name in block["languages"])
    for task, run in wanted.items():
        for language in languages:
            if run["languages"] is None or language in run["languages"]:
                yield task, language


def _codes(entry: Mapping[str, Any], key: str) -> set[str]:
    return {code for text in entry["examples"].get(key, ()) for code in text["languages"]}


def _filled(value: Any, called: str) -> Any:
    if isinstance(value, str):
        return value.replace("{code}", called)
    return [_filled(one, called) for one in value] if isinstance(value, list) else value
