"""Parquet: a table in one file."""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from lexigraft.corpus.loader import Rows, RowShard, table_loader
from lexigraft.corpus.readers import top_columns
from lexigraft.errors import UserError
from lexigraft.setting_types import LocalPath
from lexigraft.settings import Settings


class ParquetRows(Settings):
    """A table in a Parquet file."""

    loader: Literal["parquet"]
    path: LocalPath


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


def _rows(text: Mapping[str, Any], columns: list[str] | None) -> list[RowShard]:
    return [lambda: read_parquet(text["path"], columns)]


LOADER = table_loader(ParquetRows, _rows)
