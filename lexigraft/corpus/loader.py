"""Loaders: the ways of reading text. Each is declared in one file and found by its name.

A loader is a file in `lexigraft/corpus/loaders/` (or `lexigraft/bundled/loaders/`) that is named
like the `loader` of a text and defines `LOADER`. The Snakefile imports all declarations, so loaders
import what is heavy (datasets, pyarrow) inside their functions.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import create_model

from lexigraft.errors import UserError, unknown
from lexigraft.settings import Settings, optional

Pair = tuple[str, str]
# A row of a table, and its location for messages.
Rows = Iterator[tuple[Mapping[str, Any], str]]
# A function that streams the texts, or the rows, of one file of a text.
Shard = Callable[[], Iterator[str]]
RowShard = Callable[[], Rows]
Models = tuple[type[Settings], ...]
# Descriptions of keys that several loaders have.
COLUMN = "column or field of the text; by default `text`"
LINE_BREAK = "what stands for a line feed in the texts, such as a backslash and an n"

_PACKAGES = ("lexigraft.bundled.loaders", "lexigraft.corpus.loaders")
_registered: dict[str, "Loader"] = {}


@dataclass(frozen=True)
class Inputs:
    """What a job passes to a loader besides the settings of the text.

    `package` is the folder of the unpacked package that the text is in. In `store`, a loader keeps
    what it downloads, so that interrupted reading can resume; without it, nothing is kept.
    """

    package: str | Path | None = None
    store: str | Path | None = None


@dataclass(frozen=True)
class Loader:
    """A way of reading text: where it may be used, with which keys, and how it reads.

    A use without a model is refused in a config. By convention, the keys `path`, `paths`, `source`,
    `target` and `quality` name local files: they are checked before the first job, and jobs run
    again when the files change.
    """

    # Models of the keys, which include `loader: Literal["<name>"]`, for each use.
    text: Models = ()  # training text, English text
    pairs: Models = ()  # (English, translation)
    rated_pairs: Models = ()  # pairs with an optional quality
    articles: Models = ()  # (article, summary)
    rows: Models = ()  # rows of a table
    questions: Models = ()  # rows with questions, contexts and answers
    # Functions of the settings of a text, which return the functions that stream its files, its
    # pairs with their qualities (None if unknown), or its rows with the given columns (None: all).
    read_texts: Callable[[Mapping[str, Any], Inputs], list[Shard]] | None = None
    read_pairs: Callable[[Mapping[str, Any], Inputs], Iterator[tuple[Pair, Any]]] | None = None
    read_rows: Callable[[Mapping[str, Any], list[str] | None], list[RowShard]] | None = None
    # If texts and pairs are columns of rows, `read_rows` is enough. This ends the names of the keys
    # that name them: `column`, `source_column`, `target_column`, `quality_column`.
    column: str = "column"
    needs_package: bool = False  # whether the text is in a package of packages.yaml


def loaders() -> dict[str, Loader]:
    """All loaders by name, those of the library first."""
    return {name: find_loader(name) for name in [*_built_in(), *_registered]}


def find_loader(name: str) -> Loader:
    """The loader with a name; raises a `UserError` if there is none."""
    if name in _registered:
        return _registered[name]
    if name not in _built_in():
        raise unknown("loader", name, [*_built_in(), *_registered])
    loader: Loader = import_module(f"{_built_in()[name]}.{name}").LOADER
    return loader


def register_loader(name: str, loader: Loader) -> None:
    """Add a loader from outside of the library, before a study is read.

    Raises a `UserError` if its name is taken.

    Examples
    --------
    A loader that streams the lines of a file in upper case:

    >>> from typing import Literal
    >>> from lexigraft.corpus import register_loader
    >>> class Capitals(Settings):
    ...     loader: Literal["capitals"]
    ...     path: str
    >>> def read_texts(text, inputs):
    ...     return [lambda: (line.upper() for line in open(text["path"], encoding="utf-8"))]
    >>> loader = Loader(text=(Capitals,), read_texts=read_texts)
    >>> register_loader("capitals", loader)  # doctest: +SKIP
    """
    if name in _built_in() or _registered.get(name, loader) != loader:
        raise UserError(f"loader '{name}': the name is taken; choose another")
    _registered[name] = loader


def registered_loaders() -> list[str]:
    """Names of the loaders from outside."""
    return list(_registered)


def table_loader(
    rows: type[Settings],
    read_rows: Callable[[Mapping[str, Any], list[str] | None], list[RowShard]],
    column: str = "column",
    text: type[Settings] | None = None,
    more_pairs: Models = (),
    **functions: Any,
) -> Loader:
    """A loader of a format with named columns, for all uses: `rows` has the keys of a table.

    Keys that name columns are added to it, see `Loader.column`. `text` may add further keys of a
    text, `more_pairs` are other models of pairs, `functions` further arguments of `Loader`.
    """

    def model(suffix: str, base: type[Settings], described: str, **fields: Any) -> type[Settings]:
        name = f"{rows.__name__}{suffix}"
        return create_model(name, __base__=base, __doc__=described, **fields)

    sides = {f"{side}_{column}": (str, ...) for side in ("source", "target")}
    pairs = model("Pairs", rows, "Pairs of texts.", **sides)
    quality = (str, optional(f"the {column} with the quality of a pair"))
    rated = model("RatedPairs", pairs, "Rated pairs.", **{f"quality_{column}": quality})
    return Loader(
        text=(model("Text", text or rows, "A text.", **{column: (str, optional(COLUMN))}),),
        pairs=(pairs, *more_pairs),
        rated_pairs=(rated, *more_pairs),
        articles=(pairs,),
        rows=(rows,),
        questions=(rows,),
        read_rows=read_rows,
        column=column,
        **functions,
    )


def loader_file(name: str) -> str:
    """The file of a loader of the library, relative to the repository."""
    return f"{_built_in()[name].replace('.', '/')}/{name}.py"


@cache
def _built_in() -> dict[str, str]:
    """Name of each loader of the library -> its package."""
    root = Path(__file__).resolve().parents[2]
    folders = {package: root / package.replace(".", "/") for package in _PACKAGES}
    files = [(package, file) for package, path in folders.items() for file in path.glob("*.py")]
    return {file.stem: package for package, file in sorted(files) if file.stem != "__init__"}
