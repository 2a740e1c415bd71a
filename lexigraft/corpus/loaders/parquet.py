"""Parquet: a table in one file."""

from collections.abc import Mapping
from typing import Any, Literal

from lexigraft.corpus.loader import COLUMN, Loader, RowShard
from lexigraft.corpus.tables import read_parquet
from lexigraft.setting_types import LocalPath
from lexigraft.settings import Settings, optional


class ParquetRows(Settings):
    """A table."""

    loader: Literal["parquet"]
    path: LocalPath


class ParquetText(ParquetRows):
    """A column of a table."""

    column: str = optional(COLUMN)


class ParquetPairs(ParquetRows):
    """Two columns of a table."""

    source_column: str
    target_column: str


class RatedParquetPairs(ParquetPairs):
    """The same with a column of qualities."""

    quality_column: str = optional("the column with the quality of a pair")


def _rows(text: Mapping[str, Any], columns: list[str] | None) -> list[RowShard]:
    return [lambda: read_parquet(text["path"], columns)]


LOADER = Loader(
    text=(ParquetText,),
    pairs=(ParquetPairs,),
    rated_pairs=(RatedParquetPairs,),
    articles=(ParquetPairs,),
    rows=(ParquetRows,),
    questions=(ParquetRows,),
    read_rows=_rows,
)
