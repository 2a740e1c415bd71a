"""A table as data: cells with a value, its spread and its change, before any format is chosen."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lexigraft.report.metrics import Metric
from lexigraft.report.summarize import Frame, SummaryRow

MINUS = "−"
MISSING = "–"
# A change of this share of the source model's score gets the full colour.
FULL_SHADE = 0.5
FULL_SHADE_NOTE = f"full colour at a change of {100 * FULL_SHADE:g} %"
# Paler colours would not be seen and are left out.
PALEST = 0.01
# A table with more columns, names of rows included, is set small, with a mark in place of the
# number of the change.
_MOST_ROOMY = 7
BETTER, WORSE = "▲", "▼"


@dataclass(frozen=True)
class TableCell:
    """One number as text."""

    text: str = MISSING
    deviation: str = ""  # the standard deviation, formatted
    change: str = ""  # the change over the source model, formatted, or another number beside it
    shade: float = 0.0  # from -1 (worse than the source model, red) to 1 (better, blue)
    rank: int = 0  # 1 for the best of its column, 2 for the second, 0 for the others
    value: float | None = None  # the number itself
    mark: str = ""  # what the colour says, for who does not see it: `▲` better, `▼` worse
    stars: str = ""  # whether the change would hold on other examples and seeds: `*` or `**`
    noise: bool = False  # whether the score says nothing: it is neither compared nor ranked


@dataclass(frozen=True)
class Row:
    """One row: what it is called, its cells, and whether it is a baseline (shown in grey).

    Rows of another `group`, which is another source model or vocabulary, are ranked apart.
    """

    stub: tuple[str, ...]
    cells: tuple[TableCell, ...]
    baseline: bool = False
    group: str = ""


@dataclass(frozen=True)
class Table:
    """A table with two header rows: a group (a language) over its columns."""

    stub: Sequence[str]  # headings of the row names
    columns: Sequence[tuple[str, str]]  # group and heading of each column of numbers
    rows: Sequence[Row]
    data: Frame  # the same numbers in full precision, tidy, one row per number
    notes: Sequence[str] = ()
    title: str = ""  # empty for what the item or the kind of table says, as is the name
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
    text = f"{value:{'+' if sign else ''},.{decimals}f}"
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
    return TableCell(f"{number(100 * value, 1, sign)} %", value=float(value), stars=stars)


def score_cell(
    found: "SummaryRow | None",
    metric: Metric,
    change: bool = True,
    compact: bool = False,
    noise: bool = False,
) -> TableCell:
    """Mean, deviation and change over Source of one row of the summary; a mark if compact.

    A score that is `noise` has no change.
    """
    if found is None:
        return TableCell()
    is_source = found["initializer"] == "none" and found["strategy"] == "none"
    compared = (
        change and not noise and not is_source and found["source_mean"] == found["source_mean"]
    )
    shade = 0.0
    if compared and found["relative_change"] == found["relative_change"]:
        shade = shade_of(found["relative_change"] / FULL_SHADE, metric.lower_is_better)
    return TableCell(
        number(found["mean"], metric.decimals),
        number(found["std"], metric.decimals) if found["std"] == found["std"] else "",
        number(found["change"], metric.decimals, sign=True) if compared and not compact else "",
        shade,
        value=float(found["mean"]),
        mark=mark_of(shade) if compact else "",
        noise=noise,
    )


def shade_of(change: float, lower_is_better: bool = False) -> float:
    """The shade of a change, which has the full colour from -1 and 1 on."""
    return max(-1.0, min(1.0, -change if lower_is_better else change))


def mark_of(shade: float) -> str:
    """The mark that says what a colour says."""
    return "" if abs(shade) < PALEST else BETTER if shade > 0 else WORSE


def ranked(rows: Sequence[Row], lower_is_better: Sequence[bool | None]) -> list[Row]:
    """Mark the best and the second best of each column among the rows that are no baselines.

    Rows of one `group` compete among themselves. A column marked None is not ranked, nor are cells
    that are noise. Numbers that look the same rank the same.
    """
    ranks: dict[tuple[str, int, str], int] = {}
    for group in {row.group for row in rows}:
        rivals = [row.cells for row in rows if row.group == group and not row.baseline]
        for column, lower in enumerate(lower_is_better):
            own = [cells[column] for cells in rivals if not cells[column].noise]
            known = [(cell.value, cell.text) for cell in own
                     if lower is not None and cell.value is not None]  # fmt: skip
            order = list(dict.fromkeys(text for _, text in sorted(known, reverse=not lower)))
            # There is no best of one, and of two no second.
            best = order[: len(order) - 1][:2]
            ranks |= {(group, column, text): place for place, text in enumerate(best, 1)}
    return [
        row if row.baseline else replace(row, cells=tuple(
            replace(cell, rank=ranks.get((row.group, column, cell.text), 0))
            for column, cell in enumerate(row.cells)
        ))
        for row in rows
    ]  # fmt: skip
