"""Pairs in two files whose lines correspond by number."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Annotated, Any, Literal

from pydantic import Field, Tag

from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.loader import Inputs, Loader, Pair
from lexigraft.errors import UserError
from lexigraft.setting_types import LocalPath
from lexigraft.settings import Settings, by_shape, optional

Paths = Annotated[
    Annotated[LocalPath, Tag("@text")]
    | Annotated[list[LocalPath], Field(min_length=1), Tag("@list")],
    by_shape("needs a file, or a list of files"),
]


class FilePairs(Settings):
    """Two files with one text per line, or two lists of such files."""

    loader: Literal["files"]
    source: Paths
    target: Paths


class RatedFilePairs(FilePairs):
    """The same with a file of qualities."""

    quality: Paths = optional("a file with one number per line")


def _pairs(text: Mapping[str, Any], _: Inputs) -> Iterator[tuple[Pair, str | None]]:
    keys = [key for key in ("source", "target", "quality") if text.get(key)]
    files = [text[key] if isinstance(text[key], list) else [text[key]] for key in keys]
    if len({*map(len, files)}) > 1:
        raise UserError(f"{', '.join(keys)}: give lists with the same number of files")
    for paths in zip(*files, strict=True):
        yield from _pairs_of(paths)


def _pairs_of(paths: Sequence[str]) -> Iterator[tuple[Pair, str | None]]:
    lines = zip_longest(*map(read_lines, paths))
    for number, (source, target, *quality) in enumerate(lines, start=1):
        if None in (values := (source, target, *quality)):
            shorter = paths[values.index(None)]
            longer = next(
                path for path, line in zip(paths, values, strict=True) if line is not None
            )
            raise UserError(
                f"{shorter}: has {number - 1} lines but {longer} has "
                f"{number + sum(1 for _ in lines)}; aligned files must have the same number of "
                "lines"
            )
        yield (source, target), quality[0] if quality else None


LOADER = Loader(
    pairs=(FilePairs,),
    rated_pairs=(RatedFilePairs,),
    articles=(FilePairs,),
    read_pairs=_pairs,
)
