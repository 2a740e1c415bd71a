"""What a task tests: the texts of which language, and which checkpoints of a cell.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Mapping
from typing import Any

from lexigraft.errors import UserError, unknown

# What the corpus stage writes for tests, beside the text to train on.
TEXTS = ("heldout.txt", "english.txt", "tasks/translation.jsonl", "tasks/summarization.jsonl")


def tested_language(config: Mapping[str, Any], task: str, language: str) -> str:
    """The language whose texts a task takes: the one that it names, else the cell's own."""
    return config["tasks"][task].get("language") or language


def languages_named(config: Mapping[str, Any]) -> set[str]:
    """Languages that the study's tasks name."""
    tasks = (config["tasks"][name] for name in config["run_tasks"])
    return {task["language"] for task in tasks if task.get("language")}


def checkpoints_of(config: Mapping[str, Any], task: str, strategy: str) -> range:
    """Numbers of the checkpoints that a task is run on, beside the trained cell, which is the last.

    None if the task is for trained cells alone or the strategy keeps no others.
    """
    wanted = config["run_tasks"][task]["checkpoints"]
    return range(1, config["strategies"][strategy]["checkpoints"] if wanted else 1)


def check_tested(config: Mapping[str, Any]) -> None:
    """Check that languages that tasks name are there, and the checkpoints that they ask for.

    Raises
    ------
    UserError
        Naming the task.
    """
    strategies = {name for block in config["cells"] for name in block["strategies"]}
    for task, wanted in config["run_tasks"].items():
        language = config["tasks"][task].get("language")
        if language and language not in config["languages"]:
            raise unknown(f"tasks.{task}.language", language, config["languages"])
        languages = {name for block in config["cells"] for name in block["languages"]}
        for name in wanted["languages"] or ():
            if name not in languages:
                raise unknown(f"config.run_tasks.{task}.languages", name, languages, "of a cell")
        kept = any(checkpoints_of(config, task, name) for name in strategies)
        if wanted["checkpoints"] and not kept:
            raise UserError(
                f"config.run_tasks.{task}.checkpoints: no strategy of this study keeps any; give "
                "one `checkpoints: 5`, for example"
            )
