"""Rows of JSON lines, and the values of their fields.

Each row comes with its location for messages. A field `translation.te` is the field `te` inside the
field `translation`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lexigraft.corpus.loader import Pair, Rows
from lexigraft.errors import UserError

_SURROGATE = re.compile("[\ud800-\udfff]")


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
    out.
    """
    value = value_of(row, field, where)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UserError(f"{where}: field '{field}' contains a {type(value).__name__}, not text")
    return _SURROGATE.sub("", value)


def list_of(row: Mapping[str, Any], field: str, where: str, kind: type = object) -> list[Any]:
    """Like `value_of`, for a value that must be a list of this kind; null becomes an empty list."""
    value = value_of(row, field, where)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
        expected = {str: "a list of texts", int: "a list of whole numbers"}.get(kind, "a list")
        raise UserError(f"{where}: field '{field}' contains {str(value)[:60]}, not {expected}")
    return value


def column_texts(rows: Rows, column: str) -> Iterator[str]:
    """The texts in a column of rows."""
    return (text_of(row, column, where) for row, where in rows)


def column_pairs(
    rows: Rows, source: str, target: str, quality: str | None
) -> Iterator[tuple[Pair, Any]]:
    """The pairs in two columns of rows, each with the value of the column `quality`, if any."""
    for row, where in rows:
        pair = text_of(row, source, where), text_of(row, target, where)
        yield pair, None if quality is None else value_of(row, quality, where)
