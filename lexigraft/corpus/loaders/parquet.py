"""Parquet: a table in one file."""

from collections.abc import Mapping
from typing import Any, Literal

from lexigraft.corpus.loader import RowShard, table_loader
from lexigraft.corpus.tables import read_parquet
from lexigraft.setting_types import LocalPath
from lexigraft.settings import Settings


class ParquetRows(Settings):
    """A table in a Parquet file."""

    loader: Literal["parquet"]
    path: LocalPath


def _rows(text: Mapping[str, Any], columns: list[str] | None) -> list[RowShard]:
    return [lambda: read_parquet(text["path"], columns)]


LOADER = table_loader(ParquetRows, _rows)
