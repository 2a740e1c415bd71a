"""Cells: the points of the experiment grid, identified by one name per axis.

Standard library only: the Snakefile is parsed again in every job.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

# A name is one folder, so it has no slash and no leading dot. File names, of at most 255 bytes,
# consist of up to two names and what atomic writes and completion records add (34 bytes).
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
# Not registry entries: the name of the unchanged source on each axis.
SOURCE_VOCABULARY = "source"
NO_INITIALIZER = "none"


def differ_in_case(names: Iterable[str]) -> tuple[str, str] | None:
    """Two names that differ only in case, and so are one folder on some disks; None if none do."""
    first_names: dict[str, str] = {}
    for name in names:
        if (first := first_names.setdefault(name.casefold(), name)) != name:
            return first, name
    return None


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
        """The folder of the cell, relative to the folder of a stage."""
        return CELL_PATH.format(**vars(self))

    @property
    def wildcards(self) -> dict[str, str]:
        """Axis -> name, as strings."""
        return {axis: str(name) for axis, name in vars(self).items()}


AXES = tuple(field.name for field in fields(Cell))
# Axis -> the config key of a list of its names.
PLURALS = {
    "source": "sources",
    "language": "languages",
    "vocabulary": "vocabularies",
    "initializer": "initializers",
    "strategy": "strategies",
    "seed": "seeds",
}
CELL_PATH = "{source}/{language}/{vocabulary}/{initializer}/{strategy}/seed-{seed}"


def cell_of(wildcards: Mapping[str, Any]) -> Cell:
    """The cell that the wildcards name; wildcards that are not axes are ignored."""
    names = {axis: wildcards[axis] for axis in AXES}
    return Cell(**names | {"seed": int(names["seed"])})


def cells_of(blocks: list[dict[str, Any]], aliases: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """Return every cell of the blocks of a config once, in their order.

    Cells to which one of the `aliases` applies are those of its `same_as`.
    """
    cells: dict[Cell, None] = {}
    for block in blocks:
        for names in product(*(block[plural] for plural in PLURALS.values())):
            cell = Cell(*names)
            for alias in aliases:
                if is_aliased(vars(cell), alias["initializer"], alias):
                    cell = replace(cell, initializer=alias["same_as"])
                    break
            cells[cell] = None
    return list(cells)


def is_aliased(names: Mapping[str, Any], initializer: str, alias: Mapping[str, Any]) -> bool:
    """Whether an alias applies to a cell, given the `names` of its axes and an `initializer`.

    In the `vocabularies` of an alias (and its `sources`, if given), the cells of its `initializer`
    are those of another initializer, `same_as`.
    """
    return (
        names["initializer"] == initializer
        and names["vocabulary"] in alias["vocabularies"]
        and (alias["sources"] is None or names["source"] in alias["sources"])
    )


def is_selected(cell: Cell, selection: Mapping[str, Any]) -> bool:
    """Whether a task is run on a cell; an axis that is null in the selection matches all names."""
    return all(
        selection.get(plural) is None or getattr(cell, axis) in selection[plural]
        for axis, plural in PLURALS.items()
    )
