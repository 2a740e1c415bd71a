"""Pairs in two files whose lines correspond by number."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, Literal

from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.loader import Inputs, Loader, Pair
from lexigraft.errors import UserError
from lexigraft.setting_types import LocalPath
from lexigraft.settings import Settings, optional


class FilePairs(Settings):
    """Two files with one text per line."""

    loader: Literal["files"]
    source: LocalPath
    target: LocalPath


class RatedFilePairs(FilePairs):
    """The same with a file of qualities."""

    quality: LocalPath = optional("a file with one number per line")


def _pairs(text: Mapping[str, Any], _: Inputs) -> Iterator[tuple[Pair, str | None]]:
    paths = [text[key] for key in ("source", "target", "quality") if text.get(key)]
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
