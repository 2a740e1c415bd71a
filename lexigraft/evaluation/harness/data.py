"""Store the data sets of the harness's tasks with the results, and read them from there.

The harness calls `datasets.load_dataset`. This call is replaced, so that its own definitions are
used unchanged, and a job without a network reads the rows that were stored before.
"""

import json
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets
from datasets import DatasetDict, load_dataset, load_from_disk
from datasets.exceptions import DatasetsError
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError

from lexigraft.artifacts.atomic import write_json
from lexigraft.errors import UserError, first_line
from lexigraft.source.hub_check import PARQUET, HubAsset
from lexigraft.source.revision_lock import lock

logger = logging.getLogger(__name__)

DATA_SETS = "datasets.json"


class DataSetNotFoundError(UserError):
    """A data set cannot be read; the message says where it was searched and what to do."""


@contextmanager
def storing_data_sets(
    folder: Path, local: str | None, results: str | Path | None = None
) -> Iterator[list[dict[str, Any]]]:
    """Let the harness load data sets as usual, and store a copy of each in `folder`.

    The folder gets a subfolder for each data set, and `datasets.json`, which maps requests to them.
    Data sets in the folder `local`, under their hub names, are read from it. All others are read
    from the hub, at the commits that the folder `results` locks.

    Yields the list of stored data sets: `request` (the harness's arguments), `place` (the local
    folder that it comes from; None: the hub or its cache), `commits` (branch -> commit, on the
    hub), `folder`, and `rows` of each split. Raises `DataSetNotFoundError` from inside if a data
    set cannot be read.
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
