"""A table as data, independent of its format: cells with a value, its spread and its change."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lexigraft.report.metrics import Metric
from lexigraft.report.summarize import Frame, SummaryRow

MINUS = "−"
MISSING = "–"
# A change by this share of the source model's score gets the full colour.
FULL_SHADE = 0.5
FULL_SHADE_NOTE = f"full colour at a change of {100 * FULL_SHADE:g} %"
# Paler colours would not be visible and are left out.
PALEST = 0.01
# A table with more columns, including names of rows, is set small, with a mark instead of the
# number of the change.
_MOST_ROOMY = 7
BETTER, WORSE = "▲", "▼"


@dataclass(frozen=True)
class TableCell:
    """One number as text."""

    text: str = MISSING
    deviation: str = ""  # the standard deviation, formatted
    change: str = ""  # the change from the source model, or another secondary number, formatted
    shade: float = 0.0  # from -1 (worse than the source model, red) to 1 (better, blue)
    rank: int = 0  # 1 for the best of its column, 2 for the second, 0 for the others
    value: float | None = None  # the number itself
    mark: str = ""  # the meaning of the colour as a symbol: `▲` better, `▼` worse
    stars: str = ""  # significance of the change on other examples and seeds: `*` or `**`
    noise: bool = False  # whether the score is too low to be compared or ranked


@dataclass(frozen=True)
class Row:
    """One row: its names, its cells, and whether it is a baseline (shown in grey).

    Rows of different `group`s, i.e. source models or vocabularies, are ranked separately.
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
    title: str = ""  # empty: that of the item or the kind of table; the same holds for the name
    name: str = ""

    @property
    def compact(self) -> bool:
        """Whether it must be set small to fit a page."""
        return is_compact(len(self.columns), len(self.stub))


def is_compact(columns: int, stubs: int) -> bool:
    """Whether a table with this number of columns must be set small to fit a page."""
    return columns + stubs > _MOST_ROOMY


def number(value: float, decimals: int, sign: bool = False) -> str:
    """Format a number with a minus sign (U+2212) and thousands separators."""
    text = f"{value:{'+' if sign else ''},.{decimals}f}"
    if float(text.replace(",", "")) == 0:
        text = text.lstrip("+-")
    return text.replace("-", MINUS)


def number_cell(value: float | None, decimals: int) -> TableCell:
    """A number, or a mark if it is missing."""
    if value is None or value != value:
        return TableCell()
    return TableCell(number(value, decimals), value=float(value))


def percent_cell(value: float | None, sign: bool = False, stars: str = "") -> TableCell:
    """A share as percent, or a mark if it is missing."""
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
    """Mean, deviation and change from Source (a mark if compact) of one row of the summary.

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
    """The shade of a change; -1 and 1 are the full colours."""
    return max(-1.0, min(1.0, -change if lower_is_better else change))


def mark_of(shade: float) -> str:
    """The symbol for a shade."""
    return "" if abs(shade) < PALEST else BETTER if shade > 0 else WORSE


def ranked(rows: Sequence[Row], lower_is_better: Sequence[bool | None]) -> list[Row]:
    """Mark the best and the second best of each column among the rows that are not baselines.

    Each `group` of rows is ranked separately. Columns with None and cells that are noise are not
    ranked. Numbers that are equal as shown have the same rank.
    """
    ranks: dict[tuple[str, int, str], int] = {}
    for group in {row.group for row in rows}:
        rivals = [row.cells for row in rows if row.group == group and not row.baseline]
        for column, lower in enumerate(lower_is_better):
            own = [cells[column] for cells in rivals if not cells[column].noise]
            known = [(cell.value, cell.text) for cell in own
                     if lower is not None and cell.value is not None]  # fmt: skip
            order = list(dict.fromkeys(text for _, text in sorted(known, reverse=not lower)))
            # A single row has no best, and two rows have no second best.
            best = order[: len(order) - 1][:2]
            ranks |= {(group, column, text): place for place, text in enumerate(best, 1)}
    return [
        row if row.baseline else replace(row, cells=tuple(
            replace(cell, rank=ranks.get((row.group, column, cell.text), 0))
            for column, cell in enumerate(row.cells)
        ))
        for row in rows
    ]  # fmt: skip
