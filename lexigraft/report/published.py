"""Published numbers of papers, each with its cell, task and metric.

They are stored in CSV files with the columns `FIELDS`. `table`, `row` and `column` are the location
in the paper. The axes of a cell, `task` and `metric` are names of this project; an axis without a
name matches any. A number that is a mean of several scores has their names, separated by spaces; a
field with a single name then holds for all of these scores. A number that no score here measures
has no task, but a `reason`. `value` and `spread` are as printed; multiplied by `factor`, they have
the unit of the metric here.
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
class Score:
    """The names of a score."""

    cell: dict[str, str]  # axis -> name, for the known axes
    task: str
    metric: str


@dataclass(frozen=True)
class Published:
    """A published number, in the unit of the metric here."""

    paper: str  # the name of its file
    table: str
    row: str
    column: str
    scores: tuple[Score, ...]  # the number is their mean
    value: float
    spread: float | None  # None if the paper prints none
    rounding: float  # half a unit of the last printed digit
    reason: str  # why no score here is the same quantity; empty if there is a task


def read_published(paths: Iterable[Path]) -> list[Published]:
    """Read the numbers of files in order; a UserError names the file and line that is wrong."""
    numbers = []
    for path in paths:
        try:
            with path.open(encoding="utf-8", newline="") as file:
                reader = csv.DictReader(file, strict=True)
                if tuple(reader.fieldnames or ()) != FIELDS:
                    raise UserError(f"{path}: its first line is not {','.join(FIELDS)}")
                numbers += [_number(row, path, reader.line_num) for row in reader]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise UserError(f"{path}: cannot be read as CSV ({error})") from None
    return numbers


def _number(row: dict[str, str], path: Path, line: int) -> Published:
    location = f"{path}, line {line}"
    if None in row or None in row.values():
        raise UserError(f"{location}: does not have {len(FIELDS)} fields")
    if bool(row["task"]) != bool(row["metric"]) or bool(row["task"]) == bool(row["reason"]):
        raise UserError(
            f"{location}: give either a task and a metric, or the reason why it has none"
        )
    values = {
        name: row[name] for name in ("value", "factor", "spread") if row[name] or name != "spread"
    }
    numbers = {}
    for name, text in values.items():
        try:
            numbers[name] = Decimal(text)
        except InvalidOperation:
            numbers[name] = Decimal("nan")
        if not numbers[name].is_finite():
            raise UserError(f"{location}: {name}: '{text}' is not a number")
    value, factor = numbers["value"], numbers["factor"]
    names = {name: row[name].split() for name in (*_CELL, "task", "metric")}
    count = max(1, *map(len, names.values()))
    if any(len(field_names) not in (0, 1, count) for field_names in names.values()):
        raise UserError(
            f"{location}: fields with several names do not have the same number of them"
        )
    # One name, or none, belongs to all scores.
    score_names = {
        name: field_names * count if len(field_names) == 1 else field_names or [""] * count
        for name, field_names in names.items()
    }
    unit = Decimal(10) ** int(value.as_tuple().exponent)  # of the last printed digit
    return Published(
        path.stem,
        row["table"],
        row["row"],
        row["column"],
        tuple(
            Score(
                {axis: score_names[axis][index] for axis in _CELL if score_names[axis][index]},
                score_names["task"][index],
                score_names["metric"][index],
            )
            for index in range(count)
        ),
        float(value * factor),
        float(numbers["spread"] * factor) if "spread" in numbers else None,
        float(abs(factor) * unit / 2),
        row["reason"],
    )
