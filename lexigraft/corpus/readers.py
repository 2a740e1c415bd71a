"""Streaming readers of text, parallel text and tables: files, datasets and catalogues.

Readers return text unchanged; `lexigraft.corpus.cleaning` cleans it. A null value is read as an
empty text, which cleaning counts as blank. `translation.te` as a field or column is the field `te`
inside the field `translation`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from lexigraft.corpus.catalogue import read_catalogue
from lexigraft.corpus.lines import DAMAGED, read_lines
from lexigraft.errors import UserError

Pair = tuple[str, str]
Settings = Mapping[str, Any]
# Each row of a table with its place for messages.
Rows = Iterator[tuple[Mapping[str, Any], str]]


def read_sentences(settings: Settings, package: str | Path | None = None) -> Iterator[str]:
    """Stream the text that `settings` describe.

    Parameters
    ----------
    settings
        `{"loader": "catalogue", "package", "locale"}`, `{"loader": "text", "paths"}` (`.txt`,
        `.txt.gz`, `.txt.xz`), `{"loader": "jsonl", "path", "field"}` (`.jsonl`, `.jsonl.gz`),
        `{"loader": "parquet", "path", "column"}` or `{"loader": "datasets", "name", "column",
        "split", "config", "revision", "data_files"}` (see `open_dataset`).
    package
        The folder of the unpacked package, for catalogues.
    """
    loaders: dict[str, Callable[[], Iterator[str]]] = {
        "catalogue": lambda: (target for _, target in _catalogue(settings, package)),
        "text": lambda: (line for path in settings["paths"] for line in read_lines(path)),
        **dict.fromkeys(_TABLES, lambda: (texts[0] for texts in _columns(settings, ""))),
    }
    return _select(loaders, settings, "text")


def read_pairs(settings: Settings, package: str | Path | None = None) -> Iterator[Pair]:
    """Stream the (English, translation) pairs that `settings` describe.

    Parameters
    ----------
    settings
        `{"loader": "catalogue", "package", "locale"}`, `{"loader": "tsv", "path"}`,
        `{"loader": "files", "source", "target"}`,
        `{"loader": "jsonl", "path", "source_field", "target_field"}`,
        `{"loader": "parquet", "path", "source_column", "target_column"}` or
        `{"loader": "datasets", "name", "source_column", "target_column", "split", …}` or, for two
        configurations of one dataset with corresponding rows, `{"loader": "datasets", "name",
        "source_config", "target_config", "column", "id_column", "split", …}`.
    package
        The folder of the unpacked package, for catalogues.
    """
    loaders = {
        "catalogue": lambda: iter(_catalogue(settings, package)),
        "tsv": lambda: (pair for pair, _ in read_tsv(settings["path"])),
        **_pair_loaders(settings),
    }
    return _select(loaders, settings, "parallel")


def read_articles(settings: Settings) -> Iterator[Pair]:
    """Stream the (article, summary) pairs that `settings` describe.

    Parameters
    ----------
    settings
        As for `read_pairs`, with the article as source and the summary as target, and the loaders
        `files`, `jsonl`, `parquet` and `datasets`.
    """
    return _select(_pair_loaders(settings), settings, "summarization")


def read_rows(settings: Settings, columns: list[str] | None = None) -> Rows:
    """Stream the rows of a table, each with its place for messages.

    Parameters
    ----------
    settings
        `{"loader": "jsonl", "path"}`, `{"loader": "parquet", "path"}` or `{"loader": "datasets",
        "name", "split", "config", "revision", "data_files"}`.
    columns
        The columns to read; None for all.
    """
    loaders = {name: lambda: _TABLES[settings["loader"]](settings, columns) for name in _TABLES}
    return _select(loaders, settings, "text")


def read_tsv(
    path: str | Path, source: int = 1, target: int = 2, quality: int | None = None
) -> Iterator[tuple[Pair, str | None]]:
    """Pairs from the columns of a tab-separated file, each with its quality if it has one.

    Columns are numbered from 1, blank lines are skipped, and quotes are plain characters.
    """
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            columns = line.split("\t")
            if len(columns) < max(source, target):
                raise UserError(
                    f"{path}: line {number} has {len(columns)} columns, of which {source} and "
                    f"{target} are needed; tabs separate columns"
                )
            pair = (columns[source - 1], columns[target - 1])
            yield pair, None if quality is None or len(columns) < quality else columns[quality - 1]


def read_aligned_files(source: str | Path, target: str | Path) -> Iterator[Pair]:
    """Pairs from two files whose lines correspond by number."""
    lines = zip_longest(read_lines(source), read_lines(target))
    for number, (left, right) in enumerate(lines, start=1):
        if left is None or right is None:
            longer, shorter = (target, source) if left is None else (source, target)
            raise UserError(
                f"{shorter}: has {number - 1} lines and {longer} has "
                f"{number + sum(1 for _ in lines)}; aligned files have equally many"
            )
        yield left, right


def open_dataset(
    name: str,
    split: str = "train",
    config: str | None = None,
    revision: str | None = None,
    data_files: str | list[str] | None = None,
) -> Any:
    """A dataset of the `datasets` library, streamed, so that nothing is stored.

    Parameters
    ----------
    name
        A hub name, a local folder (also one that `save_to_disk` wrote), or a format (`text`,
        `json`, `csv`, `parquet`). Datasets with a loading script are refused.
    split, config, revision
        As `datasets.load_dataset` takes them.
    data_files
        Patterns of the files to read; for a format: paths or URLs, possibly compressed. They form
        the split `train`.
    """
    from datasets import DatasetDict, load_dataset, load_from_disk

    folder = Path(name)
    if (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file():
        saved = load_from_disk(str(folder))
        return saved[split] if isinstance(saved, DatasetDict) else saved
    return load_dataset(
        name, config, data_files=data_files, split=split, revision=revision, streaming=True
    )


def value_of(row: Mapping[str, Any], field: str, where: str) -> Any:
    """One value of a row; `translation.te` is the field `te` inside the field `translation`."""
    value: Any = row
    for name in [field] if field in row else field.split("."):
        if not isinstance(value, Mapping) or name not in value:
            raise UserError(f"{where}: has no field '{field}'; it has {', '.join(map(str, row))}")
        value = value[name]
    return value


def text_of(row: Mapping[str, Any], field: str, where: str) -> str:
    """As `value_of`, for a value that must be text; null becomes an empty text."""
    value = value_of(row, field, where)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UserError(f"{where}: field '{field}' holds a {type(value).__name__}, not text")
    return value


def _pair_loaders(settings: Settings) -> dict[str, Callable[[], Iterator[Pair]]]:
    def pairs() -> Iterator[Pair]:
        if "source_config" in settings:
            return _aligned_datasets(
                **{key: settings[key] for key in _ALIGNED}, **_dataset(settings)
            )
        return ((source, target) for source, target in _columns(settings, "source_", "target_"))

    return {
        "files": lambda: read_aligned_files(settings["source"], settings["target"]),
        **dict.fromkeys(_TABLES, pairs),
    }


def _select(
    loaders: Mapping[str, Callable[[], Iterator[Any]]], settings: Settings, key: str
) -> Iterator[Any]:
    loader = settings["loader"]
    if loader not in loaders:
        raise UserError(f"{key}.loader: '{loader}' is not one of {', '.join(loaders)}")
    try:
        return loaders[loader]()
    except KeyError as error:
        raise UserError(f"{key}: the loader '{loader}' needs the key {error}") from None


def _columns(settings: Settings, *prefixes: str) -> Iterator[list[str]]:
    """The texts of a table in the columns under the keys `{prefix}column` or `{prefix}field`."""
    kind = "field" if settings["loader"] == "jsonl" else "column"
    columns = [settings[prefix + kind] for prefix in prefixes]
    rows = _TABLES[settings["loader"]](settings, columns)
    return ([text_of(row, column, where) for column in columns] for row, where in rows)


def _dataset(settings: Settings) -> dict[str, Any]:
    keys = ("name", "split", "config", "revision", "data_files")
    return {key: settings[key] for key in keys if settings.get(key) is not None}


def _catalogue(settings: Settings, package: str | Path | None) -> list[Pair]:
    if package is None:
        raise UserError(f"package {settings['package']}: the job names no input package")
    return read_catalogue(package, settings["locale"])


def _aligned_datasets(
    name: str,
    source_config: str,
    target_config: str,
    column: str,
    id_column: str,
    split: str = "train",
    **options: Any,
) -> Iterator[Pair]:
    """Pairs from two configurations of a dataset whose rows correspond, such as FLORES+."""
    left, right = (
        _datasets_rows(name, split, [id_column, column], config=config, **options)
        for config in (source_config, target_config)
    )
    rows = zip_longest(left, right, fillvalue=(None, ""))
    for number, ((source, where), (target, _)) in enumerate(rows, start=1):
        if source is None or target is None or source[id_column] != target[id_column]:
            where = _dataset_name(name, split)
            raise UserError(
                f"{where}: row {number} of {source_config} and of {target_config} do not have the "
                f"same '{id_column}', so they are not a pair"
            )
        yield text_of(source, column, where), text_of(target, column, where)


def _jsonl_rows(path: str | Path) -> Rows:
    """Each object of a file with one JSON object per line, and its place for messages."""
    for number, line in enumerate(read_lines(path), start=1):
        line = line.strip("\ufeff \t\r")
        if line:
            where = f"{path}: line {number}"
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise UserError(f"{where} is not JSON ({error})") from None
            if not isinstance(row, dict):
                raise UserError(f"{where} is not a JSON object; each line must be one")
            yield row, where


def _parquet_rows(path: str | Path, columns: list[str] | None = None) -> Rows:
    """Each row of a Parquet file, of all columns or of those, and its place for messages."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    if not Path(path).is_file():
        raise UserError(f"{path}: there is no such file")
    try:
        with ParquetFile(path) as file:
            names = file.schema_arrow.names
            tops = [_top_column(column, names, str(path)) for column in columns or names]
            if file.metadata.num_rows == 0:
                raise UserError(f"{path}: the file has no rows")
            for batch in file.iter_batches(columns=list(dict.fromkeys(tops))):
                for row in batch.to_pylist():
                    yield row, str(path)
    except pyarrow.ArrowException as error:
        raise UserError(f"{path}: not a readable Parquet file ({error})") from None


def _datasets_rows(
    name: str, split: str = "train", columns: list[str] | None = None, **options: Any
) -> Rows:
    """Each row of a dataset, of all columns or of those, and its place for messages."""
    import aiohttp
    from datasets.exceptions import DatasetsError

    where = _dataset_name(name, split)
    empty = True
    try:
        dataset = open_dataset(name, split, **options)
        if columns is not None and dataset.column_names is not None:
            tops = [_top_column(column, dataset.column_names, where) for column in columns]
            dataset = dataset.select_columns(list(dict.fromkeys(tops)))
        for row in dataset:
            empty = False
            yield row, where
    except (
        DatasetsError, OSError, ValueError, KeyError, RuntimeError, aiohttp.ClientError, *DAMAGED
    ) as error:  # fmt: skip
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{where}: cannot be read ({reason})") from error
    if empty:
        raise UserError(f"{where}: has no rows")


def _dataset_name(name: str, split: str) -> str:
    return f"dataset {name}, split {split}"


def _top_column(column: str, available: Sequence[str], where: str) -> str:
    """The column itself, or for `translation.te` the column `translation`."""
    for name in (column, column.split(".")[0]):
        if name in available:
            return name
    raise UserError(f"{where}: has no column '{column}'; it has {', '.join(available)}")


_ALIGNED = ("source_config", "target_config", "column", "id_column")
# Readers of the rows of a table, by loader.
_TABLES: dict[str, Callable[[Settings, list[str] | None], Rows]] = {
    "jsonl": lambda settings, _: _jsonl_rows(settings["path"]),
    "parquet": lambda settings, columns: _parquet_rows(settings["path"], columns),
    "datasets": lambda settings, columns: _datasets_rows(columns=columns, **_dataset(settings)),
}
