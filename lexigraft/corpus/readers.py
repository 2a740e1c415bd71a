"""Read text, parallel text and tables with the loader that their settings name.

Readers return text unchanged; `lexigraft.corpus.cleaning` cleans it. A null value is read as an
empty text, which cleaning counts as blank. The default field or column of a text is `text`;
`translation.te` is the field `te` inside the field `translation`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from lexigraft.corpus.loader import Inputs, Loader, Pair, Rows, Shard, find_loader, loaders
from lexigraft.errors import UserError

Text = Mapping[str, Any]
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_sentences(settings: Text, package: str | Path | None = None) -> Iterator[str]:
    """Stream a text; `package` is the folder of the unpacked package that it is in."""
    return chain.from_iterable(shard() for shard in text_shards(settings, package))


def text_shards(
    settings: Text, package: str | Path | None = None, store: str | Path | None = None
) -> list[Shard]:
    """Functions that stream one part of a text each: one file, if its loader can tell files apart.

    Text files on the web are stored as they are read: in the folder `store`, so that interrupted
    reading can resume, or in a temporary one.
    """
    loader = _loader(settings, "text", "text", package)
    if loader.read_texts is not None:
        return loader.read_texts(settings, Inputs(package, store))
    column = settings.get(loader.column, "text")
    assert loader.read_rows is not None
    shards = loader.read_rows(settings, [column])
    return [partial(lambda shard: column_texts(shard(), column), shard) for shard in shards]


def read_pairs(settings: Text, package: str | Path | None = None) -> Iterator[Pair]:
    """Stream (English, translation) pairs."""
    return (pair for pair, _ in read_scored_pairs(settings, package))


def read_scored_pairs(
    settings: Text, package: str | Path | None = None
) -> Iterator[tuple[Pair, Any]]:
    """Stream pairs, each with its quality as the text states it.

    Without a key that begins with `quality`, every quality is None.
    """
    return _pairs(settings, _loader(settings, "parallel", "rated_pairs", package), package)


def read_articles(settings: Text) -> Iterator[Pair]:
    """Stream (article, summary) pairs: the article is the source, the summary the target."""
    loader = _loader(settings, "summarization", "articles")
    return (pair for pair, _ in _pairs(settings, loader, None))


def read_rows(settings: Text, columns: list[str] | None = None) -> Rows:
    """Stream the rows of a table, each with its location for messages.

    `columns` are the columns to read, if the format allows a selection; None for all.
    """
    loader = _loader(settings, "text", "questions")
    assert loader.read_rows is not None
    return chain.from_iterable(shard() for shard in loader.read_rows(settings, columns))


def _pairs(text: Text, loader: Loader, package: str | Path | None) -> Iterator[tuple[Pair, Any]]:
    keys = [f"{part}_{loader.column}" for part in ("source", "target", "quality")]
    if loader.read_rows is None or keys[0] not in text:
        assert loader.read_pairs is not None
        yield from loader.read_pairs(text, Inputs(package))
        return
    columns = [text[key] for key in keys if text.get(key)]
    for row, where in chain.from_iterable(shard() for shard in loader.read_rows(text, columns)):
        pair = text_of(row, columns[0], where), text_of(row, columns[1], where)
        yield pair, value_of(row, columns[2], where) if columns[2:] else None


def _loader(text: Text, key: str, use: str, package: str | Path | None = None) -> Loader:
    """The loader of a text, which must support this use."""
    usable = [name for name, loader in loaders().items() if getattr(loader, use)]
    if text["loader"] not in usable:
        raise UserError(f"{key}.loader: '{text['loader']}' is not one of {', '.join(usable)}")
    loader = find_loader(text["loader"])
    if loader.needs_package and package is None:
        raise UserError(f"package {text['package']}: the job specifies no input package")
    return loader


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
