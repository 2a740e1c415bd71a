"""What tasks with `examples` of their own share: whose the examples are, and that they are there.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from lexigraft.corpus.local_files import check_samples_files
from lexigraft.errors import UserError
from lexigraft.evaluation.task_kinds import task_kind
from workflow.group_checks import members
from workflow.tested import tested_language

ENGLISH = "english"


def languages_of(config: Mapping[str, Any], task: str, language: str) -> dict[str, str]:
    """The languages that a task tests a cell of a language on: name -> code.

    Each language of a group.
    """
    names = members(config, tested_language(config, task, language))
    return {name: config["languages"][name]["code"] for name in names}


def tests_of(
    config: Mapping[str, Any], task: str, language: str, known: Collection[str]
) -> dict[str, str]:
    """What a task asks a cell of a language in each language and in English: name -> code.

    English is asked, and called so, where its code is known to the task.
    """
    codes = languages_of(config, task, language)
    tests = {ENGLISH if code == "en" else name: code for name, code in codes.items()}
    if "en" in known:
        tests.setdefault(ENGLISH, "en")
    return tests


def codes_of(texts: Iterable[Mapping[str, Any]]) -> set[str]:
    """The codes of the languages that some texts serve."""
    return {code for text in texts for code in text["languages"]}


def text_of(texts: Iterable[Mapping[str, Any]], code: str) -> tuple[Mapping[str, Any], str]:
    """The first text that serves a language, and what it calls it: its code, or another name."""
    text = next(one for one in texts if code in one["languages"])
    called = text["languages"][code] if isinstance(text["languages"], Mapping) else code
    return text, called


def filled(value: Any, called: str) -> Any:
    """A setting of a text of several languages, with the name of one of them for `{code}`."""
    if isinstance(value, str):
        return value.replace("{code}", called)
    return [filled(one, called) for one in value] if isinstance(value, list) else value


def run_on(config: Mapping[str, Any], property_: str) -> list[tuple[str, str]]:
    """Every task with examples of its own, of kinds with a property, by language it is run on."""
    return list(
        dict.fromkeys(
            (task, language)
            for task, wanted in config["run_tasks"].items()
            if getattr(task_kind(config["tasks"][task]["kind"]), property_)
            and "examples" in config["tasks"][task]
            for block in config["cells"]
            for language in block["languages"]
            if (wanted["languages"] is None or language in wanted["languages"])
            and (wanted["sources"] is None or set(wanted["sources"]) & set(block["sources"]))
        )
    )


def check_codes(config: Mapping[str, Any], task: str, key: str, codes: Mapping[str, str]) -> None:
    """Check that a part of a task's examples, `test` or `shots`, has some of every language.

    Raises
    ------
    UserError
        Naming the task and the language that it lacks.
    """
    known = codes_of(config["tasks"][task]["examples"][key])
    for name, code in codes.items():
        if code not in known:
            raise UserError(
                f"tasks.{task}.examples.{key}: none of '{code}', the language of '{name}'; add "
                f"some, or leave it out of config.run_tasks.{task}.languages"
            )


def check_text_files(task: str, part: str, text: Mapping[str, Any]) -> None:
    """Check that the local files of one part of a task's examples exist.

    Raises
    ------
    UserError
        Naming the key and the path of the first one that is missing or empty.
    """
    check_samples_files({"text": text}, f"tasks.{task}.examples ({part})")
