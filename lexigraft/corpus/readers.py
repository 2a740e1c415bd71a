"""Streaming readers of monolingual and parallel text, one per format.

Readers return text unchanged; `lexigraft.corpus.cleaning` cleans it. A null value is read as an
empty text, which cleaning counts as blank.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from lexigraft.corpus.lines import DAMAGED, read_lines
from lexigraft.errors import UserError

Pair = tuple[str, str]


def read_text(paths: Sequence[str | Path]) -> Iterator[str]:
    """Lines of text files (`.txt`, `.txt.gz`, `.txt.xz`), one file after another."""
    for path in paths:
        yield from read_lines(path)


def read_jsonl(path: str | Path, field: str) -> Iterator[str]:
    """One field of a file with one JSON object per line (`.jsonl`, `.jsonl.gz`)."""
    return (texts[0] for texts in _jsonl_texts(path, [field]))


def read_parquet(path: str | Path, column: str) -> Iterator[str]:
    """One text column of a Parquet file."""
    return (texts[0] for texts in _parquet_texts(path, [column]))


def read_datasets(name: str, column: str, split: str = "train", **options: Any) -> Iterator[str]:
    """One column of a dataset of the `datasets` library.

    Parameters
    ----------
    name, split, options
        See `open_dataset`.
    column
        The column; `translation.te` is the field `te` inside the column `translation`.
    """
    rows = datasets_rows(name, split, [column], **options)
    return (text_of(row, column, where) for row, where in rows)


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


def read_tsv(path: str | Path) -> Iterator[Pair]:
    """Pairs from a file with the English, a tab and the translation on each line.

    Further columns are ignored, blank lines are skipped, and quotes are plain characters.
    """
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            columns = line.split("\t")
            if len(columns) < 2:
                raise UserError(f"{path}: line {number} has no tab between source and translation")
            yield columns[0], columns[1]


def read_aligned_files(source: str | Path, target: str | Path) -> Iterator[Pair]:
    """Pairs from two files whose lines correspond by number.

    Raises
    ------
    UserError
        One file has more lines than the other.
    """
    lines = zip_longest(read_lines(source), read_lines(target))
    for number, (left, right) in enumerate(lines, start=1):
        if left is None or right is None:
            longer, shorter = (target, source) if left is None else (source, target)
            raise UserError(
                f"{shorter}: has {number - 1} lines and {longer} has "
                f"{number + sum(1 for _ in lines)}; aligned files have equally many"
            )
        yield left, right


def read_parallel_jsonl(path: str | Path, source_field: str, target_field: str) -> Iterator[Pair]:
    """Pairs from two fields of a file with one JSON object per line."""
    return _pairs(_jsonl_texts(path, [source_field, target_field]))


def read_parallel_parquet(
    path: str | Path, source_column: str, target_column: str
) -> Iterator[Pair]:
    """Pairs from two columns of a Parquet file."""
    return _pairs(_parquet_texts(path, [source_column, target_column]))


def read_parallel_datasets(
    name: str, source_column: str, target_column: str, split: str = "train", **options: Any
) -> Iterator[Pair]:
    """Pairs from two columns of a dataset; see `read_datasets`."""
    for row, where in datasets_rows(name, split, [source_column, target_column], **options):
        yield text_of(row, source_column, where), text_of(row, target_column, where)


def read_aligned_datasets(
    name: str,
    source_config: str,
    target_config: str,
    column: str,
    id_column: str,
    split: str = "train",
    **options: Any,
) -> Iterator[Pair]:
    """Pairs from two configurations of a dataset whose rows correspond, such as FLORES+.

    Raises
    ------
    UserError
        The rows do not correspond: `id_column` differs, or one configuration has more rows.
    """
    left, right = (
        datasets_rows(name, split, [id_column, column], config=config, **options)
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


def _pairs(rows: Iterable[list[str]]) -> Iterator[Pair]:
    return ((left, right) for left, right in rows)


def _jsonl_texts(path: str | Path, fields: list[str]) -> Iterator[list[str]]:
    for row, where in jsonl_rows(path):
        yield [text_of(row, field, where) for field in fields]


def _parquet_texts(path: str | Path, columns: list[str]) -> Iterator[list[str]]:
    for row, where in parquet_rows(path, columns):
        yield [text_of(row, column, where) for column in columns]


def jsonl_rows(path: str | Path) -> Iterator[tuple[Mapping[str, Any], str]]:
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


def parquet_rows(
    path: str | Path, columns: list[str] | None = None
) -> Iterator[tuple[Mapping[str, Any], str]]:
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


def datasets_rows(
    name: str, split: str, columns: list[str] | None = None, **options: Any
) -> Iterator[tuple[Mapping[str, Any], str]]:
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
