"""Load tasks of lm-evaluation-harness by folder and name, and store the data that they read.

The harness calls `datasets.load_dataset`. This call is replaced, so that its own definitions are
used unchanged, and a job without a network reads the rows that were stored before.
"""

import json
import logging
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets
import lm_eval.tasks
import nltk
from datasets import DatasetDict, load_dataset, load_from_disk
from datasets.exceptions import DatasetsError
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError
from lm_eval.tasks import TaskManager
from lm_eval.tasks.manager import TaskDict

from lexigraft.artifacts.atomic import atomic_folder, write_json
from lexigraft.errors import UserError, first_line, unknown
from lexigraft.source.hub_check import PARQUET, HubAsset
from lexigraft.source.revision_lock import lock

logger = logging.getLogger(__name__)

DATA = "data"
DATA_SETS = "datasets.json"
HARNESS = f"lm-evaluation-harness {lm_eval.__version__}"


class DataSetNotFoundError(UserError):
    """A data set cannot be read; the message says where it was searched and what to do."""


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
    facts |= {"available": True, "why": None, "used": used, "commits": commits, "datasets": stored}
    return [str(file.relative_to(into)) for file in files], facts


def load_task(name: str, folder: str) -> TaskDict:
    """Create a task of the harness, or all tasks of a group, which reads their data sets.

    `folder` is that of the definition of `name` in the harness's `tasks` (13,000 definitions, of
    which only these are read), or one with the user's definitions, which begins with `.` or `/`.
    Returns `tasks`, by name, and `groups`, the input of `lm_eval.evaluate`. Raises `UserError` if
    there is no such folder or task, if a user's definition has code, if what its code needs is not
    installed, or if the task is neither multiple choice nor generates its answers.
    """
    manager = _manager_of([name], folder)
    output_type = (manager.task_index[name].cfg or {}).get("output_type", "multiple_choice")
    if output_type not in ("multiple_choice", "generate_until"):
        raise UserError(
            f"config/tasks.yaml: {name} of {HARNESS} has output type {output_type}; only multiple "
            "choice and generate_until are supported"
        )
    try:
        if "ifeval" in folder:
            nltk.data.find("tokenizers/punkt_tab")  # the definition's code would download it
    except LookupError:
        raise UserError(
            f"config/tasks.yaml: {name} of {HARNESS} needs NLTK's data; run `python -m "
            "nltk.downloader punkt_tab`"
        ) from None
    try:
        loaded = manager.load([name])
    except ModuleNotFoundError as error:
        raise UserError(
            f"config/tasks.yaml: {name} of {HARNESS} needs the package {error.name}; run `pip "
            f"install {error.name}` in lexigraft's environment"
        ) from None
    if langdetect := sys.modules.get("langdetect"):
        # It samples: without a seed, the detected language of a short text varies between calls.
        langdetect.DetectorFactory.seed = 0
    for task in loaded["tasks"].values():
        # A task that draws examples from its test split could include the tested example itself:
        # the harness excludes it only if the split is named.
        if not (task.has_training_docs() or task.has_validation_docs() or task.fewshot_cfg.split):
            task.fewshot_cfg.split = task.config.test_split
    return loaded


def data_sets_of(names: Collection[str], folder: str) -> dict[str, list[HubAsset]]:
    """Name of each task in a folder (see `load_task`) -> the data sets of its definition."""
    manager, assets_of = _manager_of(names, folder), {}
    for name in names:
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
        assets_of[name] = list(assets)
    return assets_of


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

    Columns have different names, and prompts contain words that no training text has. The longest
    text of an example does not occur elsewhere by chance: the passage of a question, the question
    of an exam, the beginning of a story.
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


# ---- data sets ---------------------------------------------------------------------------------


@contextmanager
def storing_data_sets(
    folder: Path, local: str | None, results: str | Path | None = None
) -> Iterator[list[dict[str, Any]]]:
    """Let the harness load data sets as usual, and store a copy of each in `folder`.

    Data sets in the folder `local`, under their hub names, are read from it, all others from the
    hub, at the commits that the folder `results` locks. Yields the stored data sets, which are also
    in `datasets.json`: `request` (the harness's arguments), `place` (the local folder that it comes
    from; None: the hub or its cache), `commits` (branch -> commit, on the hub), `folder`, and
    `rows` of each split. Raises `DataSetNotFoundError` from inside.
    """
    stored: list[dict[str, Any]] = []

    def store(request: dict[str, Any]) -> dict[str, Any]:
        path, name = request["path"], request["name"]
        source = Path(local).expanduser() / path if local else None
        source = source if source and source.is_dir() else None
        subfolder, commits = f"{len(stored):02d}", dict[str, str]()
        logger.info("reading %s (%s) from %s", path, name, source or "the hub or its cache")
        try:
            # A separate cache: the user's could return older files of the same names.
            with tempfile.TemporaryDirectory() as cache:
                if source is None:
                    splits = _load_from_hub(request, results, commits)
                else:
                    splits = load_dataset(**request | {"path": str(source), "cache_dir": cache})
                splits.save_to_disk(str(folder / subfolder))
        except (OSError, ValueError, RuntimeError, HfHubHTTPError, DatasetsError) as error:
            raise DataSetNotFoundError(
                f"{source or path} ({name or 'default'}) cannot be read: {first_line(error)}; run "
                f"`hf download {path} --repo-type dataset --local-dir FOLDER/{path}` on a machine "
                "with network access, and set `data` of the task in config/tasks.yaml to FOLDER"
            ) from None
        data_set = {
            "request": request,
            "place": source and str(source),
            "folder": subfolder,
            "rows": {split: len(table) for split, table in splits.items()},
            "commits": commits,
        }
        stored.append(data_set)
        return data_set

    with _stored_or(folder, stored, store):
        yield stored
    write_json(folder / DATA_SETS, stored)


@contextmanager
def stored_data_sets(folder: Path) -> Iterator[None]:
    """Let the harness read what `storing_data_sets` stored in `folder`, and nothing else.

    Raises `UserError` from inside if it requests a data set that is not stored.
    """

    def refuse(request: dict[str, Any]) -> dict[str, Any]:
        raise UserError(
            f"{folder}: has no '{request['path']}' ({request['name']}), which this version of "
            "lm-evaluation-harness reads; delete its parent folder and run again to prepare it "
            "again"
        )

    with _stored_or(folder, json.loads((folder / DATA_SETS).read_text("utf-8")), refuse):
        yield


@contextmanager
def _stored_or(
    folder: Path,
    stored: list[dict[str, Any]],
    otherwise: Callable[[dict[str, Any]], dict[str, Any]],
) -> Iterator[None]:
    """Answer `datasets.load_dataset` with stored data sets, others with what `otherwise` returns.

    A task could name a `custom_dataset` instead, but not the tasks of a group, nor those whose
    class has its own `download`.
    """

    def load(path: str, name: str | None = None, **options: Any) -> Any:
        request = {"path": path, "name": name, **options}
        equal = (data_set for data_set in stored if data_set["request"] == request)
        data_set = next(equal, None) or otherwise(request)
        # In memory: a memory-mapped data set would write derived files next to itself.
        return load_from_disk(str(folder / data_set["folder"]), keep_in_memory=True)

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    original = datasets.load_dataset
    datasets.load_dataset = load  # type: ignore[assignment]
    try:
        yield
    finally:
        datasets.load_dataset = original


def _load_from_hub(
    request: dict[str, Any], results: str | Path | None, commits: dict[str, str]
) -> DatasetDict:
    """Load a data set as requested; if it needs a loading script, the hub's Parquet copy of it.

    Adds the commits that were read to `commits`.
    """
    path = request["path"]

    def commit_of(branch: str | None) -> str | None:
        """The commit of a branch, locked in the results; the branch if none is locked or found."""
        if results is None:
            return branch
        asset = HubAsset("data set", path, branch)
        if commit := lock(results, [asset]).get(asset.key):
            commits[asset.key] = commit
        return commit or branch

    commit = commit_of(request.get("revision"))
    try:
        return load_dataset(**request | ({"revision": commit} if commit else {}))
    except RuntimeError as error:
        if "scripts are no longer supported" not in str(error):
            raise
    files: dict[str, list[str]] = {}
    commits.clear()  # drop the commit of the branch with the script
    commit = commit_of(PARQUET)
    for file in HfApi().list_repo_files(path, repo_type="dataset", revision=commit):
        parts = file.split("/")  # config, split, file
        if len(parts) == 3 and parts[0] == (request["name"] or "default"):
            files.setdefault(parts[1], []).append(file)
    return load_dataset(path, revision=commit, data_files=files)
