"""Rows of panels over the size of the vocabulary: a column per language, a line per series."""

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lexigraft.report.drawing import MUTED, Figure, add_legend, panel_grid, plain_axis
from lexigraft.report.frame import StudyResults

_MOST_COLUMNS = 4
Value = tuple[float, float] | None  # a number and its deviation, which may be missing (NaN)


class Series(NamedTuple):
    """One line: its style, and its value by vocabulary and language; None is missing.

    A `level` is a horizontal line, such as a baseline's: its value is by language only.
    """

    name: str
    style: dict[str, Any]
    value: Callable[[str, str], Value]
    level: bool = False


class PanelRow(NamedTuple):
    """One row of panels: its label, its source model and its lines."""

    label: str
    source: str
    series: Sequence[Series]


def new_token_counts(study: StudyResults) -> dict[tuple[str, str, str], int]:
    """Source, language and vocabulary -> new tokens, from the records of the tokenizers."""
    frame = study.fragmentation
    frame = frame[(frame["metric"] == "new_tokens") & (frame["vocabulary"] != "source")]
    return frame.set_index(["source", "language", "vocabulary"])["value"].astype(int).to_dict()


def sources_with_sizes(study: StudyResults) -> list[tuple[str, str]]:
    """Source models with new vocabularies, and the prefixes of the labels of their rows."""
    known = {source for source, *_ in new_token_counts(study)}
    names = [name for name in study.order("source") if name in known]
    return [(name, f"{name}\n" if len(names) > 1 else "") for name in names]


def draw_over_sizes(
    study: StudyResults, rows: Sequence[PanelRow], languages: Sequence[str]
) -> Figure:
    """Draw rows of panels over the size of the vocabulary: a column per language.

    Sizes are evenly spaced, not to scale, so that 50 and 100 can be distinguished next to 5,000. A
    line has one kind of vocabulary: if a study has two of the same size, its item selects one.
    """
    sizes = new_token_counts(study)
    ticks = sorted(set(sizes.values()))
    labels = [f"{n // 1000}K" if n and n % 1000 == 0 else f"{n:,}" for n in ticks]
    titles = [study.language(name) for name in languages]
    figure, panels = panel_grid(titles, _MOST_COLUMNS, 1.35, len(rows), margin=0.6)
    for at, (language, axes) in enumerate(zip(languages, panels, strict=True)):
        for row, axis in zip(rows, axes, strict=True):
            for series in row.series:
                _draw_series(axis, study, row.source, language, series, sizes, ticks)
            if not axis.has_data():
                axis.annotate("not measured", (0.5, 0.5), xycoords="axes fraction", ha="center",
                              va="center", fontsize=7, color=MUTED)  # fmt: skip
            elif axis.dataLim.height == 0:
                # If all values are the same, matplotlib would show the rounding errors.
                axis.set_ylim(axis.dataLim.y0 - 1, axis.dataLim.y0 + 1)
            plain_axis(axis, "y")
            axis.tick_params(labelsize=7)
            axis.locator_params(axis="y", nbins=4)
            axis.set_xlim(-0.35, len(ticks) - 0.65)
            axis.set_xticks(range(len(ticks)), labels)
            axis.tick_params(labelbottom=row is rows[-1])
            if at % _MOST_COLUMNS == 0:
                wrapped = (textwrap.fill(line, 18) for line in row.label.split("\n"))
                axis.set_ylabel("\n".join(wrapped), fontsize=7.5)
    figure.align_ylabels()
    add_legend(figure, {series.name: series.style for row in rows for series in row.series})
    figure.supxlabel("new tokens (evenly spaced)", fontsize=7.5)
    return figure


def _draw_series(
    axis: Any,
    study: StudyResults,
    source: str,
    language: str,
    series: Series,
    sizes: dict[tuple[str, str, str], int],
    ticks: list[int],
) -> None:
    if series.level:
        if (value := series.value("source", language)) is not None:
            axis.axhline(value[0], lw=1, zorder=1, **series.style)
        return
    # A missing size interrupts the line, since nothing is known between its neighbours.
    missing = (math.nan, math.nan)
    points = sorted(
        (ticks.index(sizes[source, language, name]), *(series.value(name, language) or missing))
        for name in study.order("vocabulary")
        if (source, language, name) in sizes
    )
    if not all(math.isnan(mean) for _, mean, _ in points):
        x, means, deviations = zip(*points, strict=True)
        axis.errorbar(x, means, deviations, ms=4, capsize=1.5, elinewidth=0.8, **series.style)
