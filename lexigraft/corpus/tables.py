"""Rows of tables in JSON lines and Parquet files, and the values of their fields.

Each row comes with its location for messages. A field `translation.te` is the field `te` inside the
field `translation`.
"""

import csv
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from lexigraft.corpus.lines import read_lines
from lexigraft.errors import UserError

_SURROGATE = re.compile("[\ud800-\udfff]")

Rows = Iterator[tuple[Mapping[str, Any], str]]


def read_json_lines(path: str | Path, columns: list[str] | None) -> Rows:
    """The rows with all their fields, since JSON lines, unlike tables, are read completely."""
    return json_rows(read_lines(path), path)


def json_rows(lines: Iterable[str], path: str | Path) -> Rows:
    """The objects in the JSON lines of a file; blank lines are skipped."""
    for number, line in enumerate(lines, start=1):
        line = line.strip("\ufeff \t\r\n")
        if line:
            where = f"{path}: line {number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UserError(f"{where} is not JSON ({error})") from None
            if not isinstance(row, dict):
                raise UserError(f"{where} is not a JSON object; each line must be one")
            yield row, where


def read_parquet(path: str | Path, columns: list[str] | None) -> Rows:
    """The rows with the given columns; None for all."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    if not Path(path).is_file():
        raise UserError(f"{path}: there is no such file")
    try:
        with ParquetFile(path) as file:
            names = top_columns(columns, file.schema_arrow.names, str(path))
            if file.metadata.num_rows == 0:
                raise UserError(f"{path}: the file has no rows")
            batches = (batch.to_pylist() for batch in file.iter_batches(columns=names))
            for number, row in enumerate(chain.from_iterable(batches), start=1):
                yield row, f"{path}: row {number}"
    except pyarrow.ArrowException as error:
        raise UserError(f"{path}: not a readable Parquet file ({error})") from None


def read_csv(path: str | Path, columns: list[str] | None, separator: str | None = None) -> Rows:
    """The rows of a table whose first line names its columns, as text; blank lines are skipped.

    Without a separator it is a comma, or a tab if the name of the file contains `.tsv`.
    """
    csv.field_size_limit(sys.maxsize)  # by default, a document of 128 KB is refused
    separator = separator or ("\t" if ".tsv" in Path(path).suffixes else ",")
    lines = (f"{line}\n" for line in read_lines(path))
    table = csv.reader(lines, delimiter=separator, strict=True)
    try:
        names = [name.strip("\ufeff ") for name in next(table)]
        top_columns(columns, names, str(path))
        for fields in table:
            if not fields:
                continue
            if len(fields) != len(names):
                raise UserError(
                    f"{path}: line {table.line_num} has {len(fields)} columns, but the first line "
                    f"names {len(names)}; correct it, or set `separator`"
                )
            yield dict(zip(names, fields, strict=True)), f"{path}: line {table.line_num}"
    except csv.Error as error:
        raise UserError(f"{path}: line {table.line_num} is not CSV ({error})") from None
    if table.line_num == 1:
        raise UserError(f"{path}: the file has no rows")


def top_columns(columns: list[str] | None, available: Sequence[str], where: str) -> list[str]:
    """The columns themselves, or for `translation.te` the column `translation`; None for all."""
    names = {}
    for column in available if columns is None else columns:
        top = next((name for name in (column, column.split(".")[0]) if name in available), None)
        if top is None:
            raise UserError(f"{where}: has no column '{column}'; it has {', '.join(available)}")
        names[top] = True
    return list(names)


def value_of(row: Mapping[str, Any], field: str, where: str) -> Any:
    """One value of a row; `translation.te` is the field `te` inside the field `translation`."""
    value: Any = row
    for name in [field] if field in row else field.split("."):
        if not isinstance(value, Mapping) or name not in value:
            raise UserError(f"{where}: has no field '{field}'; it has {', '.join(map(str, row))}")
        value = value[name]
    return value


def text_of(row: Mapping[str, Any], field: str, where: str) -> str:
    """Like `value_of`, for a value that must be text; null becomes an empty text.

    Half of a surrogate pair (half an emoji), which JSON can contain but no file in UTF-8, is left
    out, as in `cleaning.clean`.
    """
    value = value_of(row, field, where)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UserError(f"{where}: field '{field}' contains a {type(value).__name__}, not text")
    return _SURROGATE.sub("", value)


def column_texts(rows: Rows, column: str) -> Iterator[str]:
    """The texts in a column of rows."""
    return (text_of(row, column, where) for row, where in rows)


def column_pairs(
    rows: Rows, source: str, target: str, quality: str | None
) -> Iterator[tuple[tuple[str, str], Any]]:
    """The pairs in two columns of rows, each with the value of the column `quality`, if any."""
    for row, where in rows:
        pair = text_of(row, source, where), text_of(row, target, where)
        yield pair, None if quality is None else value_of(row, quality, where)


def list_of(row: Mapping[str, Any], field: str, where: str, kind: type = object) -> list[Any]:
    """Like `value_of`, for a value that must be a list of this kind; null becomes an empty list."""
    value = value_of(row, field, where)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
        expected = {str: "a list of texts", int: "a list of whole numbers"}.get(kind, "a list")
        raise UserError(f"{where}: field '{field}' contains {str(value)[:60]}, not {expected}")
    return value
