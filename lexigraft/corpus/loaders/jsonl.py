"""JSON Lines: a file with one JSON object per line."""

from collections.abc import Mapping
from typing import Any, Literal

from lexigraft.corpus.loader import COLUMN, Loader, RowShard
from lexigraft.corpus.tables import read_json_lines
from lexigraft.setting_types import LocalPath
from lexigraft.settings import Settings, optional


class JsonRows(Settings):
    """A JSON Lines file."""

    loader: Literal["jsonl"]
    path: LocalPath


class JsonText(JsonRows):
    """A field of a JSON Lines file."""

    field: str = optional(COLUMN)


class JsonPairs(JsonRows):
    """Two fields of a JSON Lines file."""

    source_field: str
    target_field: str


class RatedJsonPairs(JsonPairs):
    """The same with a field of qualities."""

    quality_field: str = optional("the field with the quality of a pair")


def _rows(text: Mapping[str, Any], columns: list[str] | None) -> list[RowShard]:
    return [lambda: read_json_lines(text["path"], columns)]


LOADER = Loader(
    text=(JsonText,),
    pairs=(JsonPairs,),
    rated_pairs=(RatedJsonPairs,),
    articles=(JsonPairs,),
    rows=(JsonRows,),
    questions=(JsonRows,),
    read_rows=_rows,
    column="field",
)
