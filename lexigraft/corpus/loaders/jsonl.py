"""JSON Lines: a file with one JSON object per line."""

from collections.abc import Mapping
from typing import Any, Literal

from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.loader import RowShard, table_loader
from lexigraft.corpus.readers import json_rows
from lexigraft.setting_types import LocalPath
from lexigraft.settings import Settings


class JsonRows(Settings):
    """A JSON Lines file."""

    loader: Literal["jsonl"]
    path: LocalPath


def _rows(text: Mapping[str, Any], columns: list[str] | None) -> list[RowShard]:
    return [lambda: json_rows(read_lines(text["path"]), text["path"])]


LOADER = table_loader(JsonRows, _rows, column="field")
