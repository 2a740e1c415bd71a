"""Pairs on the lines of a file: an English text, a tab and its translation; quotes are text."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.loader import Inputs, Loader, Pair
from lexigraft.errors import UserError
from lexigraft.setting_types import LocalPath, Whole
from lexigraft.settings import Settings, optional


class TsvPairs(Settings):
    """An English text, a tab and its translation on each line."""

    loader: Literal["tsv"]
    path: LocalPath


class RatedTsvPairs(TsvPairs):
    """The same with column numbers, counted from 1."""

    source_column: Whole = optional("column of English; by default 1")
    target_column: Whole = optional("column of the translation; by default 2")
    quality_column: Whole = optional("column of the quality of a pair")


def _pairs(text: Mapping[str, Any], _: Inputs) -> Iterator[tuple[Pair, str | None]]:
    path: str = text["path"]
    quality: int = text.get("quality_column", 0)  # 0: none
    source, target = text.get("source_column", 1), text.get("target_column", 2)
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) < max(source, target):
            raise UserError(
                f"{path}: line {number} has {len(columns)} columns, but columns {source} and "
                f"{target} are needed; columns are separated by tabs"
            )
        pair = columns[source - 1], columns[target - 1]
        is_rated = 0 < quality <= len(columns)
        yield pair, columns[quality - 1] if is_rated else None


LOADER = Loader(pairs=(TsvPairs,), rated_pairs=(RatedTsvPairs,), read_pairs=_pairs)
