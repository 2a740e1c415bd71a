"""The cells of a study: points of the grid, by their names.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Any

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"  # no slash, no leading dot: a name is one folder
FIT = r"all-seeds|seed-\d+"  # a fitted initializer: one for all seeds, or one per seed
AXES = ("source", "language", "vocabulary", "initializer", "strategy", "seed")


@dataclass(frozen=True)
class Cell:
    """One point of the grid; vocabulary `source` and initializer `none` make it a baseline."""

    source: str
    language: str
    vocabulary: str
    initializer: str
    strategy: str
    seed: int

    @property
    def path(self) -> str:
        """The cell's place below the folder of a stage."""
        return "/".join(str(value) for value in astuple(self)[:-1]) + f"/seed-{self.seed}"


def cell_of(wildcards: Mapping[str, str]) -> Cell:
    """The cell that a file's wildcards name."""
    source, language, vocabulary, initializer, strategy, seed = (wildcards[axis] for axis in AXES)
    return Cell(source, language, vocabulary, initializer, strategy, int(seed))


def cells_of(blocks: list[dict[str, Any]]) -> Iterator[Cell]:
    """Every cell of the blocks of a config, in their order; one may come twice."""
    for block in blocks:
        for source in block["sources"]:
            for language in block["languages"]:
                for vocabulary in block["vocabularies"]:
                    for initializer in block["initializers"]:
                        for strategy in block["strategies"]:
                            for seed in block["seeds"]:
                                yield Cell(
                                    source, language, vocabulary, initializer, strategy, seed
                                )


def is_wanted(cell: Cell, wanted: Mapping[str, Any]) -> bool:
    """Whether a task is to be run on a cell: null in `wanted` lets all pass."""
    axes = (("source", "sources"), ("seed", "seeds"), ("language", "languages"),
            ("initializer", "initializers"), ("strategy", "strategies"))  # fmt: skip
    return all(wanted[key] is None or getattr(cell, axis) in wanted[key] for axis, key in axes)
