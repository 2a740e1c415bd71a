"""Scores of families of models by task or tested language (VocADT, Figures 2 to 5)."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from lexigraft.report.averages import average_columns, with_averages
from lexigraft.report.metrics import metric
from lexigraft.report.models import Column, Model, find
from lexigraft.report.study import StudyResults
from lexigraft.report.style import (
    INK,
    MUTED,
    RULE,
    WIDTH,
    Axes,
    Figure,
    Look,
    new_figure,
    plain_axis,
    series_style,
)
from lexigraft.report.tables.comparison import KIND as TABLE
from lexigraft.report.tables.comparison import ComparisonOptions, compared

_ROW, _MARGIN = 0.34, 0.9  # inches


class FamilyScoreOptions(ComparisonOptions):
    """The options of a figure of families of models."""

    relative: Annotated[
        bool, Field(description="show changes over Source in percent instead of scores")
    ] = False


KIND = replace(
    TABLE,
    caption="Scores of families of models: the averages that the item names, or else each tested "
    "language and task. A panel for each metric. Bars: one standard deviation. Grey: source models "
    "with their own vocabulary.",
    options=FamilyScoreOptions,
)


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """A panel per source model and metric, a row per average or column, a marker per family."""
    found = compared(study)
    if found is None:
        return None
    means = average_columns(study.item.option("averages") or (), found.columns)
    shown = list(means) or found.columns
    averaged = with_averages(found.study, means) if means else found.study
    sources = list(dict.fromkeys(model.source for model in found.rows))
    panels = [
        (source, [column for column in shown if column[2] == name])
        for source in sources
        for name in dict.fromkeys(name for *_, name in shown)
    ]
    heights = [_MARGIN + _ROW * len(columns) for _, columns in panels]
    figure = new_figure(WIDTH, sum(heights) + 0.3)
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    families = list(dict.fromkeys(found.rows.values()))
    marks: dict[str, Any] = {}
    for axis, (source, columns) in zip(axes, panels, strict=True):
        for model, title in found.rows.items():
            if model.source == source:
                mark = _draw_family(axis, averaged, model, title, columns, families)
                marks |= {title: mark} if mark else {}
        _label(axis, averaged, columns)
        if len(sources) > 1:
            axis.set_title(source)
    figure.legend([*marks.values()], [*marks], loc="outside upper right", ncols=4)
    return figure


def _draw_family(
    axis: Axes,
    study: StudyResults,
    model: Model,
    title: str,
    columns: list[Column],
    families: list[str],
) -> Any:
    """Draw the marks of one family, offset from those of other families; None without scores."""
    place, relative = families.index(title), study.item.option("relative")
    shift = 0.5 * (place - (len(families) - 1) / 2) / len(families)
    points = []
    for y, column in enumerate(columns):
        score = find(study, model, *column)
        if score is not None and (score["source_mean"] or not relative):
            scale = 100 / abs(score["source_mean"]) if relative else 1.0
            value = score["change" if relative else "mean"]
            spread = score["std"] if score["std"] == score["std"] else 0.0
            points.append((value * scale, y + shift, spread * scale))
    if not points:
        return None
    values, places, spreads = zip(*points, strict=True)
    style = series_style(place) | ({"color": MUTED} if model.baseline else {})
    return axis.errorbar(values, places, xerr=spreads, ls="", ms=5, lw=0.9, label=title, zorder=3,
                         **style)  # fmt: skip


def _label(axis: Axes, study: StudyResults, columns: list[Column]) -> None:
    """Label the rows and the axis of a panel."""
    names = [", ".join(filter(None, (study.language(language), task)))
             for language, task, _ in columns]  # fmt: skip
    axis.set_yticks(range(len(columns)), names)
    axis.set_ylim(len(columns) - 0.5, -0.5)
    for edge in range(1, len(columns)):
        axis.axhline(edge - 0.5, color=RULE, lw=0.5, zorder=1)
    plain_axis(axis)
    title = metric(columns[0][2]).title
    if study.item.option("relative"):
        axis.axvline(0, color=INK, lw=0.8, zorder=2)
        title += ", change over Source (%)"
    axis.set_xlabel(title)
