"""Read text, parallel text and tables with the loader that their settings name.

Readers return text unchanged; `lexigraft.corpus.cleaning` cleans it. A null value is read as an
empty text, which cleaning counts as blank. Which keys a loader needs is declared in its file, see
`lexigraft.corpus.loader`. `translation.te` as a field or column is the field `te` inside the field
`translation`. The default field or column of a text is `text`.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from lexigraft.corpus.loader import Inputs, Loader, Models, Pair, Rows, Shard, find_loader, loaders
from lexigraft.corpus.tables import column_pairs, column_texts
from lexigraft.errors import UserError

Text = Mapping[str, Any]


def read_sentences(settings: Text, package: str | Path | None = None) -> Iterator[str]:
    """Stream a text.

    `package` is the folder of the unpacked package that a text is in, here and in `read_pairs`.
    """
    return chain.from_iterable(shard() for shard in text_shards(settings, package))


def text_shards(
    settings: Text, package: str | Path | None = None, store: str | Path | None = None
) -> list[Shard]:
    """Functions that stream one part of a text each: one file, if its loader can tell files apart.

    Text files on the web are stored as they are read: in the folder `store`, so that interrupted
    reading can resume, or in a temporary one.
    """
    text, loader = _open(settings, "text", "text", package)
    if loader.read_texts is not None:
        return loader.read_texts(text, Inputs(package, store))
    column = text.get(loader.column, "text")
    assert loader.read_rows is not None
    shards = loader.read_rows(text, [column])

    def texts(index: int) -> Iterator[str]:
        return column_texts(shards[index](), column)

    return [partial(texts, index) for index in range(len(shards))]


def read_pairs(settings: Text, package: str | Path | None = None) -> Iterator[Pair]:
    """Stream (English, translation) pairs."""
    return (pair for pair, _ in read_scored_pairs(settings, package))


def read_scored_pairs(
    settings: Text, package: str | Path | None = None
) -> Iterator[tuple[Pair, Any]]:
    """Stream pairs like `read_pairs`, each with its quality as the text states it.

    Without a key that begins with `quality`, every quality is None.
    """
    return _pairs(*_open(settings, "parallel", "rated_pairs", package), package)


def read_articles(settings: Text) -> Iterator[Pair]:
    """Stream (article, summary) pairs: the article is the source, the summary the target."""
    text, loader = _open(settings, "summarization", "articles")
    return (pair for pair, _ in _pairs(text, loader, None))


def read_rows(settings: Text, columns: list[str] | None = None) -> Rows:
    """Stream the rows of a table, each with its location for messages.

    `columns` are the columns to read, if the format allows a selection; None for all.
    """
    text, loader = _open(settings, "text", "questions")
    assert loader.read_rows is not None
    return chain.from_iterable(shard() for shard in loader.read_rows(text, columns))


def _pairs(text: Text, loader: Loader, package: str | Path | None) -> Iterator[tuple[Pair, Any]]:
    if loader.read_pairs is not None:
        yield from loader.read_pairs(text, Inputs(package))
        return
    name = loader.column
    columns = (text[f"source_{name}"], text[f"target_{name}"], text.get(f"quality_{name}"))
    assert loader.read_rows is not None
    for shard in loader.read_rows(text, [column for column in columns if column is not None]):
        yield from column_pairs(shard(), *columns)


class _CheckedText(dict[str, Any]):
    """Settings of a text, with an error for missing keys that its loader needs."""

    key = "text"

    def __missing__(self, key: str) -> Any:
        raise UserError(f"{self.key}: the loader '{self['loader']}' needs the key '{key}'")


def _open(
    settings: Text, key: str, use: str, package: str | Path | None = None
) -> tuple[_CheckedText, Loader]:
    """The settings of a text and its loader, which must support this use."""
    text = _CheckedText(settings)
    text.key = key
    usable = [name for name, loader in loaders().items() if models_of(loader, use)]
    if text["loader"] not in usable:
        raise UserError(f"{key}.loader: '{text['loader']}' is not one of {', '.join(usable)}")
    loader = find_loader(text["loader"])
    if loader.needs_package and package is None:
        raise UserError(f"package {text['package']}: the job specifies no input package")
    return text, loader


def models_of(loader: Loader, use: str) -> Models:
    """The models of a loader's keys for a use, such as `pairs`; empty if it does not support it."""
    models: Models = getattr(loader, use)
    return models
