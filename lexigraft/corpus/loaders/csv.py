"""CSV: a table with the names of its columns in the first line, and quoted fields."""

from collections.abc import Mapping
from typing import Any, Literal

from lexigraft.corpus.loader import RowShard, table_loader
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


def _rows(text: Mapping[str, Any], columns: list[str] | None) -> list[RowShard]:
    return [lambda: read_csv(text["path"], columns, text.get("separator"))]


LOADER = table_loader(CsvRows, _rows)
