"""Read text, parallel text and tables with the loader that their settings name.

Readers return text unchanged; `lexigraft.corpus.cleaning` cleans it. A null value is read as an
empty text, which cleaning counts as blank. The default field or column of a text is `text`.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from lexigraft.corpus.loader import Inputs, Loader, Pair, Rows, Shard, find_loader, loaders
from lexigraft.corpus.tables import column_pairs, column_texts
from lexigraft.errors import UserError

Text = Mapping[str, Any]


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
    if loader.read_pairs is not None:
        yield from loader.read_pairs(text, Inputs(package))
        return
    name = loader.column
    columns = (text[f"source_{name}"], text[f"target_{name}"], text.get(f"quality_{name}"))
    assert loader.read_rows is not None
    for shard in loader.read_rows(text, [column for column in columns if column is not None]):
        yield from column_pairs(shard(), *columns)


def _loader(text: Text, key: str, use: str, package: str | Path | None = None) -> Loader:
    """The loader of a text, which must support this use."""
    usable = [name for name, loader in loaders().items() if getattr(loader, use)]
    if text["loader"] not in usable:
        raise UserError(f"{key}.loader: '{text['loader']}' is not one of {', '.join(usable)}")
    loader = find_loader(text["loader"])
    if loader.needs_package and package is None:
        raise UserError(f"package {text['package']}: the job specifies no input package")
    return loader
