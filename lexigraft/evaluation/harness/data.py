"""The data sets that the harness's tasks read: stored beside the results, and read from there.

When it loads a task, the harness calls `datasets.load_dataset`. Here this call is answered: by what
it would have found, of which a copy is stored (`storing_data_sets`), or by that copy
(`stored_data_sets`). So its own definitions are run, whatever they ask for, and a job on a machine
without a network finds the rows that were there when it was planned.
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

from lexigraft.atomic import write_json
from lexigraft.errors import UserError, first_line

logger = logging.getLogger(__name__)

DATA_SETS = "datasets.json"
PARQUET = "refs/convert/parquet"  # the branch with the hub's own copy of a data set


class DataSetNotFoundError(UserError):
    """A data set is neither here nor to be had; it says where it was looked for and what to do."""


@contextmanager
def storing_data_sets(folder: Path, local: str | None) -> Iterator[list[dict[str, Any]]]:
    """Let the harness read data sets as it would, and keep a copy of each in `folder`.

    The folder gets a folder for each data set, and `datasets.json`, which says which is which.
    Data sets that the folder `local` holds under their names of the hub are taken from it.

    Yields what is stored so far: `request` (how the harness asked for it), `place` (the local
    folder that it is from; None: the hub or its cache), `folder`, and `rows` of each split. Raises
    `DataSetNotFoundError` from inside if a data set cannot be had.
    """
    stored: list[dict[str, Any]] = []

    def store(path: str, name: str | None = None, **options: Any) -> Any:
        request = {"path": path, "name": name, **options}
        found = _find(stored, request)
        if found is None:
            place = Path(local).expanduser() / path if local else None
            place = place if place and place.is_dir() else None
            at = f"{len(stored):02d}"
            rows = _copy(request, place, folder / at)
            found = {"request": request, "place": place and str(place), "folder": at, "rows": rows}
            stored.append(found)
        return _open(folder / found["folder"])

    with _answered(store):
        yield stored
    write_json(folder / DATA_SETS, stored)


@contextmanager
def stored_data_sets(folder: Path) -> Iterator[None]:
    """Let the harness read what `storing_data_sets` stored in `folder`, and nothing else.

    Raises `UserError` from inside if it asks for something that is not stored.
    """
    stored = json.loads((folder / DATA_SETS).read_text("utf-8"))

    def read_stored(path: str, name: str | None = None, **options: Any) -> Any:
        found = _find(stored, {"path": path, "name": name, **options})
        if found is None:
            raise UserError(
                f"{folder}: has no '{path}' ({name}), which this version of lm-evaluation-harness "
                "reads; delete the folder above it, and it is prepared again"
            )
        return _open(folder / found["folder"])

    with _answered(read_stored):
        yield


@contextmanager
def _answered(answer: Callable[..., Any]) -> Iterator[None]:
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    before = datasets.load_dataset
    datasets.load_dataset = answer  # type: ignore[assignment]
    try:
        yield
    finally:
        datasets.load_dataset = before


def _find(stored: list[dict[str, Any]], request: dict[str, Any]) -> dict[str, Any] | None:
    return next((one for one in stored if one["request"] == request), None)


def _open(folder: Path) -> Any:
    # In memory: what is mapped from disk leaves its derived files beside itself.
    return load_from_disk(str(folder), keep_in_memory=True)


def _copy(request: dict[str, Any], place: Path | None, into: Path) -> dict[str, int]:
    """Copy a data set of a local folder, of the hub or of its cache; the rows of its splits."""
    path, name = request["path"], request["name"]
    logger.info("reading %s (%s) from %s", path, name, place or "the hub or its cache")
    try:
        # A cache of its own: the user's would hand out older files of the same names.
        with tempfile.TemporaryDirectory() as cache:
            found = _from_hub(request) if place is None else load_dataset(
                **request | {"path": str(place), "cache_dir": cache}
            )  # fmt: skip
            found.save_to_disk(str(into))
            return {split: len(table) for split, table in found.items()}
    except (OSError, ValueError, RuntimeError, HfHubHTTPError, DatasetsError) as error:
        reason = first_line(error)
        raise DataSetNotFoundError(
            f"{place or path} ({name or 'default'}) cannot be read: {reason}; run `hf download "
            f"{path} --repo-type dataset --local-dir FOLDER/{path}` where there is a network, and "
            "name FOLDER as the `data` of the task in config/tasks.yaml"
        ) from None


def _from_hub(request: dict[str, Any]) -> DatasetDict:
    """As the harness asks for it; of one that takes a script of its own, the hub's copy of it."""
    try:
        return load_dataset(**request)
    except RuntimeError as error:
        if "scripts are no longer supported" not in str(error):
            raise
    files: dict[str, list[str]] = {}
    for file in HfApi().list_repo_files(request["path"], repo_type="dataset", revision=PARQUET):
        parts = file.split("/")  # config, split, file
        if len(parts) == 3 and parts[0] == (request["name"] or "default"):
            files.setdefault(parts[1], []).append(file)
    return load_dataset(request["path"], revision=PARQUET, data_files=files)
