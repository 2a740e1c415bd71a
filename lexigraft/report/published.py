"""Numbers that papers print, each with the cell, task and metric that it is of.

A file of them is a CSV with the columns `FIELDS`. `table`, `row` and `column` say where the paper
prints the number. The axes of a cell, `task` and `metric` are names of this project; an axis
without a name is any, and a number without a task is of nothing that an evaluation scores, such as
a mean over languages. `value` and `spread` are as printed; times `factor` they have the unit of the
metric here.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lexigraft.errors import UserError
from lexigraft.report.summarize import CELL

FIELDS = ("table", "row", "column", *CELL, "task", "metric", "value", "spread", "factor")


@dataclass(frozen=True)
class Published:
    """A printed number, in the unit of the metric here."""

    paper: str  # the name of its file
    table: str
    row: str
    column: str
    cell: dict[str, str]  # axis -> name, of the axes that are known
    task: str
    metric: str
    value: float
    spread: float | None  # None where the paper prints none
    rounding: float  # half a unit of the last digit that is printed


def read_published(paths: Iterable[Path]) -> list[Published]:
    """The numbers of files in their order; a UserError names the file and line that is wrong."""
    return [number for path in paths for number in _read(path)]


def _read(path: Path) -> list[Published]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            if tuple(reader.fieldnames or ()) != FIELDS:
                raise UserError(f"{path}: its first line is not {','.join(FIELDS)}")
            return [_number(row, path, reader.line_num) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read as CSV ({error})") from None


def _number(row: dict[str, str], path: Path, line: int) -> Published:
    if None in row or None in row.values():
        raise UserError(f"{path}, line {line}: it does not have {len(FIELDS)} fields")
    if bool(row["task"]) != bool(row["metric"]):
        raise UserError(f"{path}, line {line}: give both a task and a metric, or neither")
    printed = row["value"]
    try:
        value, factor = float(printed), float(row["factor"])
        spread = float(row["spread"]) * factor if row["spread"] else None
    except ValueError as error:
        raise UserError(f"{path}, line {line}: {error}; write a number") from None
    digits = len(printed.partition(".")[2])
    return Published(
        path.stem,
        row["table"],
        row["row"],
        row["column"],
        {axis: row[axis] for axis in CELL if row[axis]},
        row["task"],
        row["metric"],
        value * factor,
        spread,
        abs(factor) * 0.5 * 10**-digits,
    )
