"""A table as data: cells with a value, its spread and its change, before any format is chosen."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lexigraft.report.metrics import Metric

if TYPE_CHECKING:
    import pandas

MINUS = "−"
MISSING = "–"
# A change of this share of the source model's score gets the full colour.
FULL_SHADE = 0.5
# Paler colours would not be seen and are left out.
PALEST = 0.01
# A table with more columns, names of rows included, is set small, with a mark in place of the
# number of the change.
_MOST_ROOMY = 7
BETTER, WORSE = "▲", "▼"


@dataclass(frozen=True)
class TableCell:
    """One number as text.

    Attributes
    ----------
    text, deviation
        The mean and its standard deviation, formatted.
    change
        The change over the source model, formatted, or another number beside it.
    shade
        From -1 (worse than the source model, red) to 1 (better, blue).
    rank
        1 for the best of its column, 2 for the second, 0 for the others.
    value
        The number itself.
    mark
        What the colour says, for who does not see it: `▲` better, `▼` worse.
    stars
        Whether the change would hold on other examples and seeds: `*` or `**`.
    """

    text: str = MISSING
    deviation: str = ""
    change: str = ""
    shade: float = 0.0
    rank: int = 0
    value: float | None = None
    mark: str = ""
    stars: str = ""


@dataclass(frozen=True)
class Row:
    """One row: what it is called, its cells, and whether it is a baseline (shown in grey)."""

    stub: tuple[str, ...]
    cells: tuple[TableCell, ...]
    baseline: bool = False
    group: str = ""


@dataclass(frozen=True)
class Table:
    """A table with two header rows: a group (a language) over its columns.

    Attributes
    ----------
    stub, columns
        The headings of the row names, and group and heading of each column of numbers.
    data
        The same numbers in full precision, tidy, one row per number.
    title, name
        Empty for what the kind of table and the item say.
    """

    stub: Sequence[str]
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Row]
    data: "pandas.DataFrame"
    notes: Sequence[str] = ()
    title: str = ""
    name: str = ""

    @property
    def compact(self) -> bool:
        """Whether it must be set small to fit a page."""
        return is_compact(len(self.columns), len(self.stub))


def is_compact(columns: int, stubs: int) -> bool:
    """Whether a table of so many columns must be set small to fit a page."""
    return columns + stubs > _MOST_ROOMY


def number(value: float, decimals: int, sign: bool = False) -> str:
    """A number with a real minus sign and thousands apart."""
    text = f"{value:+,.{decimals}f}" if sign else f"{value:,.{decimals}f}"
    if float(text.replace(",", "")) == 0:
        text = text.lstrip("+-")
    return text.replace("-", MINUS)


def number_cell(value: float | None, decimals: int) -> TableCell:
    """A number; a mark for one that is missing."""
    if value is None or value != value:
        return TableCell()
    return TableCell(number(value, decimals), value=float(value))


def percent_cell(value: float | None, sign: bool = False, stars: str = "") -> TableCell:
    """A share as percent; a mark for one that is missing."""
    if value is None or value != value:
        return TableCell()
    text = f"{number(100 * value, 1, sign=sign)} %"
    return TableCell(text, value=float(value), stars=stars)


def score_cell(
    found: "pandas.Series | None", metric: Metric, change: bool = True, compact: bool = False
) -> TableCell:
    """Mean, deviation and change over Source of one row of the summary; a mark if compact."""
    if found is None:
        return TableCell()
    compared = change and not _is_source(found) and found["source_mean"] == found["source_mean"]
    shade = 0.0
    if compared and found["relative_change"] == found["relative_change"]:
        better = -found["relative_change"] if metric.lower_is_better else found["relative_change"]
        shade = max(-1.0, min(1.0, better / FULL_SHADE))
    has_deviation = found["std"] == found["std"]
    return TableCell(
        number(found["mean"], metric.decimals),
        number(found["std"], metric.decimals) if has_deviation else "",
        number(found["change"], metric.decimals, sign=True) if compared and not compact else "",
        shade,
        value=float(found["mean"]),
        mark=mark_of(shade) if compact else "",
    )


def mark_of(shade: float) -> str:
    """The mark that says what a colour says."""
    return "" if abs(shade) < PALEST else BETTER if shade > 0 else WORSE


def ranked(rows: list[Row], lower_is_better: list[bool | None]) -> list[Row]:
    """Mark the best and the second best of each column among the rows that are no baselines.

    Rows of another `group` (another source model) compete among themselves. A column marked None
    is not ranked. Numbers that look the same rank the same.
    """
    for column, lower in enumerate(lower_is_better):
        for group in {row.group for row in rows}:
            mine = [row for row in rows if row.group == group and not row.baseline]
            values = [(row.cells[column].value, row.cells[column].text) for row in mine]
            known = sorted((v for v in values if v[0] is not None), reverse=lower is False)
            order = list(dict.fromkeys(text for _, text in known))
            if lower is None or len(order) < 2:
                continue
            ranks = {order[0]: 1} | ({order[1]: 2} if len(order) > 2 else {})
            for index, row in enumerate(rows):
                if row in mine:
                    cells = list(row.cells)
                    cells[column] = replace(cells[column], rank=ranks.get(cells[column].text, 0))
                    rows[index] = replace(row, cells=tuple(cells))
    return rows


def _is_source(found: "pandas.Series") -> bool:
    return found["initializer"] == "none" and found["strategy"] == "none"
