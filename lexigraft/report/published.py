"""Published numbers of papers, each with its cell, task and metric.

They are stored in CSV files with the columns `FIELDS`. `table`, `row` and `column` are the location
in the paper. The axes of a cell, `task` and `metric` are names of this project; an axis without a
name matches any. A number that no score here measures has no task, but a `reason`: it is an average
over languages, a loss, a count. `value` and `spread` are as printed; multiplied by `factor`, they
have the unit of the metric here.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from lexigraft.cells import AXES
from lexigraft.errors import UserError

_CELL = AXES[:-1]  # without the seed
FIELDS = ("table", "row", "column", *_CELL, "task", "metric", "value", "spread", "factor", "reason")


@dataclass(frozen=True)
class Published:
    """A published number, in the unit of the metric here."""

    paper: str  # the name of its file
    table: str
    row: str
    column: str
    cell: dict[str, str]  # axis -> name, for the known axes
    task: str
    metric: str
    value: float
    spread: float | None  # None if the paper prints none
    rounding: float  # half a unit of the last printed digit
    reason: str  # why no score here is the same quantity; empty if there is a task


def read_published(paths: Iterable[Path]) -> list[Published]:
    """Read the numbers of files in order; a UserError names the file and line that is wrong."""
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
        raise UserError(f"{path}, line {line}: does not have {len(FIELDS)} fields")
    where = f"{path}, line {line}"
    if bool(row["task"]) != bool(row["metric"]):
        raise UserError(f"{where}: give both a task and a metric, or neither")
    if bool(row["task"]) == bool(row["reason"]):
        raise UserError(f"{where}: give either a task or the reason why it has none")
    value, factor = (_decimal(row[name], f"{where}: {name}") for name in ("value", "factor"))
    spread = _decimal(row["spread"], f"{where}: spread") * factor if row["spread"] else None
    unit = Decimal(10) ** int(value.as_tuple().exponent)  # of the last printed digit
    return Published(
        path.stem,
        row["table"],
        row["row"],
        row["column"],
        {axis: row[axis] for axis in _CELL if row[axis]},
        row["task"],
        row["metric"],
        float(value * factor),
        None if spread is None else float(spread),
        float(abs(factor) * unit / 2),
        row["reason"],
    )


def _decimal(text: str, where: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite():
        raise UserError(f"{where}: '{text}' is not a number")
    return value
