"""Load tasks of lm-evaluation-harness by folder and name, and store the data that they read."""

import json
import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import lm_eval.tasks
from lm_eval.tasks import TaskManager
from lm_eval.tasks.manager import TaskDict

from lexigraft.artifacts.atomic import atomic_folder
from lexigraft.errors import UserError, unknown
from lexigraft.evaluation.harness.data import (
    DATA_SETS,
    DataSetNotFoundError,
    stored_data_sets,
    storing_data_sets,
)
from lexigraft.source.hub_check import HubAsset

logger = logging.getLogger(__name__)

DATA = "data"
HARNESS = f"lm-evaluation-harness {lm_eval.__version__}"


def prepare_benchmark(
    name: str, folder: str, data: str | None, into: str | Path, results: str | Path | None = None
) -> tuple[list[str], dict[str, Any]]:
    """Load a task of the harness once (see `load_task`), and store its data sets in `into`/data.

    For `data` and `results`, see `storing_data_sets`. Returns the written files and the facts for
    the card: whether the task is `available`, if not `why`, and the data sets; `used` are the local
    folders that were read, None if the task is not available; `commits` are those of the hub.
    Raises `UserError` if the harness has no such task.
    """
    into = Path(into)
    facts: dict[str, Any] = {"task": name, "definition": folder, "harness": HARNESS}
    try:
        with (
            atomic_folder(into / DATA) as temporary,
            storing_data_sets(temporary, data, results) as stored,
        ):
            load_task(name, folder)
    except DataSetNotFoundError as reason:
        logger.warning("%s cannot be scored: %s", name, reason)
        return [], facts | {"available": False, "why": str(reason), "used": None, "commits": {}}
    files = sorted(file for file in (into / DATA).rglob("*") if file.is_file())
    used = sorted({data_set["place"] for data_set in stored if data_set["place"]})
    commits = {key: commit for data_set in stored for key, commit in data_set["commits"].items()}
    facts |= {"available": True, "why": None, "used": used, "commits": commits}
    facts |= {DATA_SETS.split(".")[0]: stored}
    return [str(file.relative_to(into)) for file in files], facts


def load_task(name: str, folder: str) -> TaskDict:
    """Create a task of the harness, or all tasks of a group, which reads their data sets.

    `name` is the name in its definition, such as `xcopa_sw`; `folder` is the folder of the
    definition in the harness's `tasks`, or a folder with the user's definitions, which begins with
    `.` or `/`. Only this folder is searched: the harness has 13,000 definitions and takes a minute
    to read all.

    Returns `tasks`, by name, and `groups`, the input of `lm_eval.evaluate`. Raises `UserError` if
    there is no such folder or task, if a user's definition has code, or if the task is not multiple
    choice.
    """
    manager = _manager_of([name], folder)
    output_type = (manager.task_index[name].cfg or {}).get("output_type", "multiple_choice")
    if output_type != "multiple_choice":
        raise UserError(
            f"config/tasks.yaml: {name} of {HARNESS} has output type {output_type}; kind "
            "multiple_choice supports only multiple-choice tasks"
        )
    loaded = manager.load([name])
    for task in loaded["tasks"].values():
        # A task that draws examples from its test split could include the tested example itself:
        # the harness excludes it only if the split is named.
        if not (task.has_training_docs() or task.has_validation_docs() or task.fewshot_cfg.split):
            task.fewshot_cfg.split = task.config.test_split
    return loaded


def data_sets_of(names: Collection[str], folder: str) -> dict[str, list[HubAsset]]:
    """Name of each task in a folder (see `load_task`) -> the data sets of its definition."""
    manager = _manager_of(names, folder)

    def data_sets(name: str) -> list[HubAsset]:
        assets: dict[HubAsset, None] = {}
        remaining = [name]
        while remaining:
            entry = manager.task_index[remaining.pop()]
            definition = entry.cfg
            if definition is None:  # a tag of other definitions
                remaining += sorted(entry.tags)
            elif "group" in definition:
                parts = definition["task"]
                remaining += [part if isinstance(part, str) else part["task"] for part in parts]
            elif path := definition.get("dataset_path"):
                options = definition.get("dataset_kwargs") or {}
                files = options.get("data_files") or {}
                patterns = tuple(files.values()) if isinstance(files, Mapping) else ()
                assets[HubAsset("data set", path, options.get("revision"), patterns)] = None
        return list(assets)

    return {name: data_sets(name) for name in names}


def _manager_of(names: Collection[str], folder: str) -> TaskManager:
    """A manager of the tasks in a folder; a UserError if the folder or one of them is missing."""
    is_own = folder.startswith((".", "/"))
    path = Path(folder) if is_own else Path(lm_eval.tasks.__file__).parent / folder
    if not path.is_dir():
        reason = ": there is no such folder" if is_own else f" is not in {HARNESS}"
        raise UserError(f"config/tasks.yaml: folder '{folder}'{reason}")
    for file in sorted(path.iterdir()) if is_own else ():
        if file.is_file() and "!function" in file.read_text(encoding="utf-8"):
            raise UserError(
                f"{file}: has a !function, whose code would be run; custom definitions may contain "
                "only templates"
            )
    manager = TaskManager(include_path=path, include_defaults=False)
    for name in names:
        if name not in manager.all_tasks:
            where = f"config/tasks.yaml: task in folder '{folder}'"
            among = "defined there" if is_own else f"in {HARNESS}"
            raise unknown(where, name, manager.all_tasks, among)
    return manager


def longest_texts(folder: str | Path) -> list[str]:
    """The longest text of each test example of a prepared benchmark, as in its data set.

    Data sets use different column names for questions and choices, and prompts contain words of the
    harness that no training text has. The longest text of an example does not occur elsewhere by
    chance: the passage of a question, the question of an exam, the beginning of a story.
    """
    folder = Path(folder)
    card = json.loads((folder / "card.json").read_text("utf-8"))
    longest = []
    with stored_data_sets(folder / DATA):
        for task in load_task(card["task"], card["definition"])["tasks"].values():
            split = task.config.test_split if task.has_test_docs() else task.config.validation_split
            columns = task.dataset[split].column_names
            for example in task.eval_docs:
                # The harness adds columns to its examples.
                values = (value for name, value in example.items() if name in columns)
                texts = (value for value in values if isinstance(value, str))
                longest.append(max(texts, key=len, default=""))
    return longest
