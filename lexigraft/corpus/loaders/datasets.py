"""Data sets of the library `datasets`: of the hub, in folders, or files by path and address.

They are streamed. Two kinds of files are read without the library: text on the web, since reading
of 80 GB must resume at the byte where it stopped (`remote_lines`), and JSON lines compressed with
zstd, for which the library needs another package.
"""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, Tag

from lexigraft.corpus.lines import DAMAGED, is_remote_text, remote_lines
from lexigraft.corpus.loader import LINE_BREAK, Inputs, Pair, Rows, RowShard, Shard, table_loader
from lexigraft.corpus.local_files import check_data_set
from lexigraft.corpus.readers import column_texts, json_rows, text_of, top_columns
from lexigraft.errors import UserError, first_line
from lexigraft.setting_types import Words
from lexigraft.settings import Settings, by_shape, optional

DataFiles = Annotated[
    Annotated[str, Tag("@text")] | Annotated[list[str], Field(min_length=1), Tag("@list")],
    by_shape("needs paths, patterns or addresses: one, or a list of them"),
]
Text = Mapping[str, Any]


class HubRows(Settings):
    """A data set of the hub, or files that the library `datasets` reads."""

    loader: Literal["datasets"]
    name: Annotated[str, AfterValidator(check_data_set)] = Field(
        description="name of the data set on the hub"
    )
    split: str = Field(description="split, such as train")
    config: str | None = optional("configuration of the data set")
    revision: str | None = optional("a commit, tag or branch")
    data_files: DataFiles = optional("paths, patterns or URLs")


class HubTexts(HubRows):
    """A data set of the hub with texts."""

    line_break: Words = optional(LINE_BREAK)


class HubConfigs(Settings):
    """One column of two configurations of a data set, matched by an identifier."""

    loader: Literal["datasets"]
    name: str
    split: str
    source_config: str
    target_config: str
    column: str
    id_column: str
    revision: str | None = optional("a commit, tag or branch")


def read_rows(text: Text, columns: list[str] | None, config: str | None = None) -> list[RowShard]:
    """Functions that stream the rows of one file of a data set each.

    Data sets that `save_to_disk` wrote are read too, and those with a loading script are refused.
    Without a `split`, it is `train`, which the files of `data_files` form.
    """
    from datasets import DatasetDict, IterableDataset, load_dataset, load_from_disk

    name, split, subject = text["name"], text.get("split") or "train", _subject(text)
    try:
        check_data_set(name)
    except ValueError as error:
        raise UserError(f"{subject}: {error}") from None
    addresses = _data_files(text)
    if name == "json" and any(address.endswith(".zst") for address in addresses):
        return _zstd_shards(addresses, subject)
    _refuse_linked_folders(name, addresses)
    files = {"data_files": text.get("data_files"), "revision": text.get("revision")}
    with _dataset_errors(subject):
        if any(Path(name, file).is_file() for file in ("dataset_dict.json", "state.json")):
            dataset = load_from_disk(name)
            dataset = dataset[split] if isinstance(dataset, DatasetDict) else dataset
        else:
            config = config or text.get("config")
            dataset = load_dataset(name, config, split=split, streaming=True, **files)
        if columns is not None and dataset.column_names is not None:
            dataset = dataset.select_columns(top_columns(columns, dataset.column_names, subject))
    count = dataset.num_shards if isinstance(dataset, IterableDataset) else 1

    def rows(index: int) -> Rows:
        is_empty = count == 1
        with _dataset_errors(subject):
            for row in dataset.shard(count, index) if count > 1 else dataset:
                is_empty = False
                yield row, subject
        if is_empty:
            raise UserError(f"{subject}: has no rows")

    return [partial(rows, index) for index in range(count)]


def _read_texts(text: Text, inputs: Inputs) -> list[Shard]:
    if addresses := _web_texts(text):
        return [partial(remote_lines, address, inputs.store) for address in addresses]
    column, line_break = text.get("column", "text"), text.get("line_break", "\n")

    def texts(rows: RowShard) -> Iterator[str]:
        return (content.replace(line_break, "\n") for content in column_texts(rows(), column))

    return [partial(texts, rows) for rows in read_rows(text, [column])]


def _read_pairs(text: Text, _: Inputs) -> Iterator[tuple[Pair, Any]]:
    """Pairs of two configurations of a data set whose rows correspond, such as FLORES+."""
    configs = text["source_config"], text["target_config"]
    column, identifier, subject = text["column"], text["id_column"], _subject(text)
    tables = (
        (row for shard in read_rows(text, [identifier, column], config) for row, _ in shard())
        for config in configs
    )
    for number, (source, target) in enumerate(zip_longest(*tables), start=1):
        if source is None or target is None or source[identifier] != target[identifier]:
            raise UserError(
                f"{subject}: row {number} of {configs[0]} and of {configs[1]} differ in "
                f"'{identifier}', so they are not a pair"
            )
        yield (text_of(source, column, subject), text_of(target, column, subject)), None


def _web_texts(text: Text) -> list[str]:
    """The addresses of a text, if all are files on the web with one text per line; else none."""
    addresses = _data_files(text)
    return addresses if text["name"] == "text" and all(map(is_remote_text, addresses)) else []


def _refuse_linked_folders(name: str, patterns: Sequence[str]) -> None:
    """Raise a UserError for a linked folder with data: the library skips it without a word."""
    roots = [name] if Path(name).is_dir() else []
    for start, _, end in (pattern.partition("*") for pattern in patterns):
        if "/" in end or end.startswith("*"):  # else it matches files of one folder alone
            roots.append(start.rpartition("/")[0] or ".")
    for folder, subfolders, _ in (found for root in roots for found in os.walk(root)):
        for link in (Path(folder, subfolder) for subfolder in subfolders):
            if link.is_symlink():
                raise UserError(
                    f"{link}: the library datasets skips linked folders; put the folder itself "
                    "there, or read it with `loader: text`"
                )


def _subject(text: Text) -> str:
    return f"dataset {text['name']}, split {text.get('split') or 'train'}"


def _data_files(text: Text) -> list[str]:
    """The paths, patterns and addresses that a text names in `data_files`."""
    files = text.get("data_files") or ()
    return [files] if isinstance(files, str) else list(files)


def _zstd_shards(addresses: Sequence[str], subject: str) -> list[RowShard]:
    """Functions that stream the rows of one JSON Lines file each, by address and name.

    An address is a path or `hf://datasets/<name>@<revision>/<path>`, and may be a pattern.
    """
    import pyarrow
    from fsspec.core import url_to_fs

    def rows(system: Any, file: str) -> Rows:
        with _dataset_errors(subject), system.open(file, "rb") as raw:
            content = pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, "r"), "zstd")
            yield from json_rows((line.decode() for line in io.BufferedReader(content)), file)

    shards: list[RowShard] = []
    for address in addresses:
        with _dataset_errors(subject):
            system, path = url_to_fs(address)
            files = sorted(system.glob(path))
        if not files:
            raise UserError(f"{address}: there is no such file")
        shards += [partial(rows, system, file) for file in files]
    return shards


@contextmanager
def _dataset_errors(subject: str) -> Iterator[None]:
    import aiohttp
    from datasets.exceptions import DatasetsError
    from huggingface_hub.errors import HTTPError  # of connections to the hub

    library = (DatasetsError, aiohttp.ClientError, HTTPError, *DAMAGED)
    try:
        yield
    except StopIteration:  # of the library, for an empty file
        raise UserError(f"{subject}: has no rows") from None
    except (*library, OSError, ValueError, KeyError, RuntimeError) as error:
        raise UserError(f"{subject}: cannot be read ({first_line(error)})") from error


LOADER = table_loader(
    HubRows,
    read_rows,
    text=HubTexts,
    more_pairs=(HubConfigs,),
    read_texts=_read_texts,
    read_pairs=_read_pairs,
)
