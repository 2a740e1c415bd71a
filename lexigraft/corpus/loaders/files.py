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
    pairs = _aligned(text["source"], text["target"])
    if not text.get("quality"):
        yield from ((pair, None) for pair in pairs)
        return
    try:
        yield from zip(pairs, read_lines(text["quality"]), strict=True)
    except ValueError:
        raise UserError(
            f"{text['quality']}: does not have as many lines as {text['source']}; it must have one "
            "number per pair"
        ) from None


def _aligned(source: str, target: str) -> Iterator[Pair]:
    lines = zip_longest(read_lines(source), read_lines(target))
    for number, (left, right) in enumerate(lines, start=1):
        if left is None or right is None:
            longer, shorter = (target, source) if left is None else (source, target)
            raise UserError(
                f"{shorter}: has {number - 1} lines but {longer} has "
                f"{number + sum(1 for _ in lines)}; aligned files must have the same number of "
                "lines"
            )
        yield left, right


LOADER = Loader(
    pairs=(FilePairs,),
    rated_pairs=(RatedFilePairs,),
    articles=(FilePairs,),
    read_pairs=_pairs,
)
