"""CSV: a table with the names of its columns in the first line, and quoted fields."""

from collections.abc import Mapping
from typing import Any, Literal

from lexigraft.corpus.loader import COLUMN, Loader, RowShard
from lexigraft.corpus.tables import read_csv
from lexigraft.setting_types import LocalPath
from lexigraft.settings import Settings, optional


class CsvRows(Settings):
    """A table whose first line names its columns; quoted fields may contain line feeds."""

    loader: Literal["csv"]
    path: LocalPath
    separator: Literal[",", ";", "\t"] = optional(
        "what separates the columns; by default a comma, or a tab if the name contains `.tsv`"
    )


class CsvText(CsvRows):
    """A column of a CSV file."""

    column: str = optional(COLUMN)


class CsvPairs(CsvRows):
    """Two columns of a CSV file."""

    source_column: str
    target_column: str


class RatedCsvPairs(CsvPairs):
    """The same with a column of qualities."""

    quality_column: str = optional("the column with the quality of a pair")


def _rows(text: Mapping[str, Any], columns: list[str] | None) -> list[RowShard]:
    return [lambda: read_csv(text["path"], columns, text.get("separator"))]


LOADER = Loader(
    text=(CsvText,),
    pairs=(CsvPairs,),
    rated_pairs=(RatedCsvPairs,),
    articles=(CsvPairs,),
    rows=(CsvRows,),
    questions=(CsvRows,),
    read_rows=_rows,
)
