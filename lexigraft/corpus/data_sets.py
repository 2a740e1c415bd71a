"""Stream rows of data sets file by file: from the hub, saved on disk, or files given by address.

JSON lines compressed with zstd are read with pyarrow, without the library `datasets`, which would
need another package to decompress them.
"""

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lexigraft.corpus.lines import DAMAGED
from lexigraft.corpus.local_files import check_data_set
from lexigraft.corpus.remote_lines import can_read
from lexigraft.corpus.tables import Rows, json_rows, top_columns
from lexigraft.errors import UserError, first_line
from lexigraft.source.download import ChangedError, EndlessError, Remote, ask_file

Settings = Mapping[str, Any]
_ZSTD = ".zst"


def read_dataset(text: Settings, columns: list[str] | None, config: str | None = None) -> Rows:
    """The rows of a data set, see `dataset_shards`."""
    for shard in dataset_shards(text, columns, config):
        yield from shard()


def dataset_shards(
    text: Settings, columns: list[str] | None, config: str | None = None
) -> list[Callable[[], Rows]]:
    """Functions that stream the rows of one file of a dataset each."""
    from datasets import DatasetDict, IterableDataset, load_dataset, load_from_disk

    name, split, where = text["name"], text.get("split") or "train", name_of(text)
    try:
        check_data_set(name)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None
    addresses = data_files(text)
    if name == "json" and any(address.endswith(_ZSTD) for address in addresses):
        return _zstd_shards(addresses, where)
    web_versions(addresses)  # the library does not say which file is missing
    _refuse_linked_folders(name, addresses)
    files = {"data_files": text.get("data_files"), "revision": text.get("revision")}
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
        with _one_version(addresses[index::count]), _dataset_errors(where):
            for row in dataset.shard(count, index) if count > 1 else dataset:
                empty = False
                yield row, where
        if empty:
            raise UserError(f"{where}: has no rows")

    return [partial(rows, index) for index in range(count)]


def _refuse_linked_folders(name: str, patterns: Sequence[str]) -> None:
    """Raise a UserError for a linked folder with data: the library skips it without a word."""
    places = [name] if Path(name).is_dir() else []
    for pattern in patterns:
        start, _, rest = pattern.partition("*")
        if "/" in rest or rest.startswith("*"):  # else it matches files of one folder alone
            places.append(start.rpartition("/")[0] or ".")
    for place in places:
        for folder, subfolders, _ in os.walk(place):
            for link in (Path(folder, one) for one in subfolders):
                if link.is_symlink():
                    raise UserError(
                        f"{link}: the library datasets skips linked folders; put the folder itself "
                        "there, or read it with `loader: text`"
                    )


def web_texts(text: Settings) -> list[str]:
    """The addresses of a text, if all are files on the web with one text per line; else none."""
    addresses = data_files(text)
    is_lines = text["loader"] == "datasets" and text["name"] == "text"
    return addresses if is_lines and all(map(can_read, addresses)) else []


def web_versions(addresses: Sequence[str]) -> dict[str, Remote]:
    """Address on the web -> its version; a UserError if a server does not report version or size.

    For files that libraries read in pieces: they notice neither a change nor a missing end.
    """
    found = {one: ask_file(one) for one in addresses if one.startswith(("https://", "http://"))}
    for address, remote in found.items():
        if remote.bytes is None:
            raise EndlessError(address)
        if not remote.is_same(remote):
            raise UserError(
                f"{address}: the server reports no version of the file (ETag, Last-Modified), so a "
                "change during reading would go unnoticed; download it yourself and give its path"
            )
    return found


@contextmanager
def _one_version(addresses: Sequence[str]) -> Iterator[None]:
    """Check that files on the web do not change meanwhile."""
    before = web_versions(addresses)
    yield
    for address, remote in before.items():
        if not remote.is_same(ask_file(address)):
            raise ChangedError(f"{address}: the file changed while it was read; run again")


def name_of(text: Settings) -> str:
    """The name of a data set in messages."""
    return f"dataset {text['name']}, split {text.get('split') or 'train'}"


def data_files(text: Settings) -> list[str]:
    """The paths, patterns and addresses that a text names in `data_files`."""
    given = text.get("data_files") or ()
    return [given] if isinstance(given, str) else list(given)


def _zstd_shards(addresses: Sequence[str], where: str) -> list[Callable[[], Rows]]:
    """Functions that stream the rows of one file each.

    An address is a path or `hf://datasets/<name>@<revision>/<path>`, and may be a pattern. Files
    are in the order of the addresses, then sorted by name. Raises a UserError for an address
    without a file and, during reading, for a line that is not a JSON object.
    """
    from fsspec.core import url_to_fs

    found: list[Callable[[], Rows]] = []
    for address in addresses:
        with _dataset_errors(where):
            system, path = url_to_fs(address)
            files = sorted(system.glob(path))
        if not files:
            raise UserError(f"{address}: there is no such file")
        found += [partial(_zstd_rows, system, file, where) for file in files]
    return found


def _zstd_rows(system: Any, file: str, where: str) -> Rows:
    import pyarrow

    with _one_version([file]), _dataset_errors(where), system.open(file, "rb") as raw:
        decompressed = pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, "r"), "zstd")
        yield from json_rows((line.decode() for line in io.BufferedReader(decompressed)), file)


@contextmanager
def _dataset_errors(where: str) -> Iterator[None]:
    import aiohttp
    from datasets.exceptions import DatasetsError
    from huggingface_hub.errors import HTTPError  # of connections to the hub

    try:
        yield
    except StopIteration:  # of the library, for an empty file
        raise UserError(f"{where}: has no rows") from None
    except (
        DatasetsError, OSError, ValueError, KeyError, RuntimeError, aiohttp.ClientError, HTTPError,
        *DAMAGED,
    ) as error:  # fmt: skip
        raise UserError(f"{where}: cannot be read ({first_line(error)})") from error
