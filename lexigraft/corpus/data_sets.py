"""Rows of data sets: of the hub, saved on disk, or files by their addresses; streamed by files.

JSON lines that are compressed by zstd are read without the library `datasets`: it asks for a
package of its own to decompress them, where pyarrow does it.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lexigraft.corpus.lines import DAMAGED
from lexigraft.corpus.remote_lines import can_read
from lexigraft.corpus.tables import Rows, top_columns
from lexigraft.errors import UserError

Settings = Mapping[str, Any]
_ZSTD = ".zst"


def read_dataset(text: Settings, columns: list[str] | None, config: str | None = None) -> Rows:
    """The rows of a data set, see `dataset_shards`."""
    for shard in dataset_shards(text, columns, config):
        yield from shard()


def dataset_shards(
    text: Settings, columns: list[str] | None, config: str | None = None
) -> list[Callable[[], Rows]]:
    """What streams the rows of each file of a dataset."""
    from datasets import DatasetDict, IterableDataset, load_dataset, load_from_disk

    name, split, where = text["name"], text.get("split") or "train", name_of(text)
    files = {"data_files": text.get("data_files"), "revision": text.get("revision")}
    if (addresses := _zstd_files(text)) is not None:
        with _dataset_errors(where):
            return [partial(_with_errors, rows, where) for rows in _zstd_shards(addresses)]
    with _dataset_errors(where):
        if any(Path(name, file).is_file() for file in ("dataset_dict.json", "state.json")):
            dataset = load_from_disk(name)
            dataset = dataset[split] if isinstance(dataset, DatasetDict) else dataset
        else:
            config = config or text.get("config")
            dataset = load_dataset(name, config, split=split, streaming=True, **files)
        if columns is not None and dataset.column_names is not None:
            dataset = dataset.select_columns(top_columns(columns, dataset.column_names, where))
    count = dataset.num_shards if isinstance(dataset, IterableDataset) else 1

    def rows(index: int) -> Rows:
        empty = count == 1
        with _dataset_errors(where):
            for row in dataset.shard(count, index) if count > 1 else dataset:
                empty = False
                yield row, where
        if empty:
            raise UserError(f"{where}: has no rows")

    return [partial(rows, index) for index in range(count)]


def web_texts(text: Settings) -> list[str]:
    """The addresses of a text that are all files of the web with a text a line; else none."""
    given = text.get("data_files") or ()
    addresses = [given] if isinstance(given, str) else list(given)
    is_lines = text["loader"] == "datasets" and text["name"] == "text"
    return addresses if is_lines and all(map(can_read, addresses)) else []


def name_of(text: Settings) -> str:
    """How messages call a data set."""
    return f"dataset {text['name']}, split {text.get('split') or 'train'}"


def _zstd_files(text: Settings) -> list[str] | None:
    """The files of a text that `datasets` cannot decompress; None if there are none."""
    given = text.get("data_files") or ()
    files = [given] if isinstance(given, str) else list(given)
    if text["name"] != "json" or not any(file.endswith(_ZSTD) for file in files):
        return None
    return files


def _zstd_shards(addresses: Sequence[str]) -> list[Callable[[], Rows]]:
    """What streams the rows of each file, each row with its place for messages.

    An address is a path or `hf://datasets/<name>@<revision>/<path>`, and may be a pattern. The
    files are in the order of the addresses, and by name. Raises a UserError for an address without
    a file, and as it is read, for what is no JSON object.
    """
    from fsspec.core import url_to_fs

    found: list[Callable[[], Rows]] = []
    for address in addresses:
        system, path = url_to_fs(address)
        files = sorted(system.glob(path))
        if not files:
            raise UserError(f"{address}: there is no such file")
        found += [partial(_zstd_rows, system, file) for file in files]
    return found


def _zstd_rows(system: Any, file: str) -> Rows:
    import pyarrow

    with system.open(file, "rb") as raw:
        decompressed = pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, "r"), "zstd")
        for number, line in enumerate(io.BufferedReader(decompressed), start=1):
            where = f"{file}: line {number}"
            try:
                row = json.loads(line)
            except ValueError as error:
                raise UserError(f"{where} is not JSON ({error})") from None
            if not isinstance(row, dict):
                raise UserError(f"{where} is not a JSON object; each line must be one")
            yield row, where


def _with_errors(rows: Callable[[], Rows], where: str) -> Rows:
    with _dataset_errors(where):
        yield from rows()


@contextmanager
def _dataset_errors(where: str) -> Iterator[None]:
    import aiohttp
    from datasets.exceptions import DatasetsError

    try:
        yield
    except (
        DatasetsError, OSError, ValueError, KeyError, RuntimeError, aiohttp.ClientError, *DAMAGED
    ) as error:  # fmt: skip
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{where}: cannot be read ({reason})") from error
