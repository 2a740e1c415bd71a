"""Rows of panels over the size of the vocabulary: a column per language, a line per series."""

import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexigraft.report.drawing import (
    MUTED,
    RULE,
    WIDTH,
    add_legend,
    panel_grid,
    plain_axis,
    title_panel,
)
from lexigraft.report.frame import StudyResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_COLUMNS = 4
_MOST_NAMED = 8  # maximum number of missing points that are named individually
Value = tuple[float, float] | None  # a number and its deviation, which may be missing (NaN)


@dataclass(frozen=True)
class Series:
    """One line: its style, and its value by vocabulary and language; None is missing.

    A horizontal line, such as a baseline's, has a value by language only.
    """

    name: str
    style: dict[str, Any]
    value: Callable[..., Value]


@dataclass(frozen=True)
class PanelRow:
    """One row of panels: its name, its source model, its series and horizontal lines."""

    name: str
    source: str
    series: list[Series]
    levels: list[Series]


def new_token_counts(study: StudyResults) -> dict[tuple[str, str, str], int]:
    """Source, language and vocabulary -> new tokens, from the records of the tokenizers."""
    frame = study.fragmentation
    frame = frame[(frame["metric"] == "new_tokens") & (frame["vocabulary"] != "source")]
    return frame.set_index(["source", "language", "vocabulary"])["value"].astype(int).to_dict()


def sources_with_sizes(study: StudyResults) -> list[tuple[str, str]]:
    """Source models with new vocabularies, and the prefixes of the names of their rows."""
    known = {source for source, *_ in new_token_counts(study)}
    names = [name for name in study.order("source") if name in known]
    return [(name, f"{name}\n" if len(names) > 1 else "") for name in names]


def draw_over_sizes(study: StudyResults, rows: list[PanelRow], languages: list[str]) -> "Figure":
    """Draw rows of panels over the size of the vocabulary: a column per language.

    Sizes are evenly spaced, not to scale, so that 50 and 100 can be distinguished next to 5,000. A
    line has one kind of vocabulary: if a study has two of the same size, its item selects one. A
    note below lists missing points.
    """
    sizes = new_token_counts(study)
    ticks = sorted(set(sizes.values()))
    labels = [f"{n // 1000}K" if n and n % 1000 == 0 else f"{n:,}" for n in ticks]
    figure, panels = panel_grid(len(languages), _MOST_COLUMNS, 1.35, len(rows), margin=0.6)
    missing: dict[tuple[str, str, str, str], list[str]] = {}
    for place, (language, axes) in enumerate(zip(languages, panels, strict=True)):
        for row, axis in zip(rows, axes, strict=True):
            for name, vocabulary in _draw_sizes(axis, study, row, language, sizes, ticks):
                key = (row.source, name, vocabulary, language)
                missing.setdefault(key, []).append(row.name.split("\n")[-1])
            axis.set_xticks(range(len(ticks)), labels)
            axis.tick_params(labelbottom=row is rows[-1])
            if place % _MOST_COLUMNS == 0:
                wrapped = (textwrap.fill(line, 18) for line in row.name.split("\n"))
                axis.set_ylabel("\n".join(wrapped), fontsize=7.5)
        title_panel(axes[0], study.language(language))
    figure.align_ylabels()
    styles = {series.name: series.style for row in rows for series in (*row.series, *row.levels)}
    add_legend(figure, styles)
    text = "new tokens (evenly spaced)"
    if missing:
        text += "\n" + textwrap.fill(_missing_points(study, rows, missing), int(18 * WIDTH))
    figure.supxlabel(text, fontsize=7.5)
    return figure


def _draw_sizes(
    axis: "Axes",
    study: StudyResults,
    row: PanelRow,
    language: str,
    sizes: dict[tuple[str, str, str], int],
    ticks: list[int],
) -> list[tuple[str, str]]:
    """Draw one panel; returns the series and vocabulary of missing points."""
    plain_axis(axis, "y")
    axis.tick_params(labelsize=7)
    axis.locator_params(axis="y", nbins=4)
    axis.set_xlim(-0.35, len(ticks) - 0.65)
    axis.margins(y=0.12)
    for level in row.levels:
        if (value := level.value(language)) is not None:
            axis.axhline(value[0], lw=1, zorder=1, **level.style)
    places = {
        name: ticks.index(sizes[row.source, language, name])
        for name in study.order("vocabulary")
        if (row.source, language, name) in sizes
    }
    named = study.item.where.get("vocabulary", ())
    missing = [("all", name) for name in named if name not in places and name != "source"]
    for series in row.series:
        values = {name: series.value(name, language) for name in places}
        missing += [(series.name, name) for name in places if values[name] is None]
        if any(value is not None for value in values.values()):
            # A missing size interrupts the line, since nothing is known between its neighbours.
            unknown = (math.nan, math.nan)
            points = sorted((x, *(values[name] or unknown)) for name, x in places.items())
            x, means, deviations = zip(*points, strict=True)
            axis.errorbar(x, means, deviations, ms=4, capsize=1.5, elinewidth=0.8, **series.style)
    if not axis.has_data():
        axis.annotate("not measured", (0.5, 0.5), xycoords="axes fraction", ha="center",
                      va="center", fontsize=7, color=MUTED)  # fmt: skip
        axis.set_yticks([])
        axis.spines["left"].set_color(RULE)
    elif axis.dataLim.height == 0:
        # If all values are the same, matplotlib would show the rounding errors.
        axis.set_ylim(axis.dataLim.y0 - 1, axis.dataLim.y0 + 1)
    return missing


def _missing_points(
    study: StudyResults, rows: list[PanelRow], missing: dict[tuple[str, str, str, str], list[str]]
) -> str:
    """A note on missing points, with their rows unless all rows of a source model lack them."""
    several = len({row.source for row in rows}) > 1
    named = []
    for (source, name, vocabulary, language), lacking in list(missing.items())[:_MOST_NAMED]:
        text = f"{name} with {vocabulary} in {study.language(language)}"
        text += f" ({source})" if several else ""
        everywhere = len(lacking) == sum(row.source == source for row in rows)
        named.append(text if everywhere else f"{text}: {', '.join(lacking)}")
    more = len(missing) - len(named)
    return f"Not measured: {'; '.join(named)}{f'; and {more} more' if more else ''}."
