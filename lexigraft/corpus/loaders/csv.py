"""CSV: a table with the names of its columns in the first line, and quoted fields."""

import csv
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.loader import Rows, RowShard, table_loader
from lexigraft.corpus.readers import top_columns
from lexigraft.errors import UserError
from lexigraft.setting_types import LocalPath
from lexigraft.settings import Settings, optional


class CsvRows(Settings):
    """A table whose first line names its columns; quoted fields may contain line feeds."""

    loader: Literal["csv"]
    path: LocalPath
    separator: Literal[",", ";", "\t"] = optional(
        "what separates the columns; by default a comma, or a tab if the name contains `.tsv`"
    )


def read_csv(path: str | Path, columns: list[str] | None, separator: str | None = None) -> Rows:
    """The rows, as text; blank lines are skipped."""
    csv.field_size_limit(sys.maxsize)  # by default, a document of 128 KB is refused
    separator = separator or ("\t" if ".tsv" in Path(path).suffixes else ",")
    lines = (f"{line}\n" for line in read_lines(path))
    table = csv.reader(lines, delimiter=separator, strict=True)
    try:
        names = [name.strip("\ufeff ") for name in next(table)]
        top_columns(columns, names, str(path))
        for fields in filter(None, table):
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


def text_column(path: str | Path) -> str:
    """The column `text` or `sentence`, or else the only one whose values are not numbers.

    Raises a `UserError` that lists the columns if there are several.
    """
    rows = [row for row, _ in islice(read_csv(path, None), 100)]
    for name in ("text", "sentence"):
        if name in rows[0]:
            return name
    texts = [name for name in rows[0] if any(any(map(str.isalpha, row[name])) for row in rows)]
    if len(texts) != 1:
        raise UserError(
            f"{path}: choose the column with the text (`field` in a study, --field in commands); "
            f"the columns are {', '.join(rows[0])}"
        )
    return texts[0]


def _rows(text: Mapping[str, Any], columns: list[str] | None) -> list[RowShard]:
    return [lambda: read_csv(text["path"], columns, text.get("separator"))]


LOADER = table_loader(CsvRows, _rows)
