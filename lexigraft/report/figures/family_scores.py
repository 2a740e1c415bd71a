"""Scores of families of models by task or tested language (VocADT, Figures 2 to 5)."""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lexigraft.report.drawing import (
    INK,
    MUTED,
    RULE,
    WIDTH,
    Look,
    add_legend,
    new_figure,
    plain_axis,
    series_style,
)
from lexigraft.report.frame import Column, Model, StudyResults
from lexigraft.report.items import figure
from lexigraft.report.models import average_columns, with_averages
from lexigraft.report.names import metric
from lexigraft.report.tables.comparison import (
    NOTHING,
    TITLE,
    ComparisonOptions,
    compared_families,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW, _MARGIN = 0.34, 0.9  # inches


class FamilyScoreOptions(ComparisonOptions):
    """The options of a figure of families of models."""

    relative: Annotated[
        bool, Field(description="show changes over Source in percent instead of scores")
    ] = False


@figure(
    title=TITLE,
    caption="Scores of families of models: the averages that the item names, or else each tested "
    "language and task. A panel for each metric. Bars: one standard deviation. Grey: source models "
    "with their own vocabulary.",
    empty=NOTHING,
    options=FamilyScoreOptions,
)
def family_scores(study: StudyResults, look: Look) -> "Figure | None":
    """A panel per source model and metric, a row per average or column, a marker per family."""
    families = compared_families(study)
    if families is None:
        return None
    means = average_columns(study.item.option("averages") or (), families.columns)
    shown = list(means) or families.columns
    averaged = with_averages(families.study, means) if means else families.study
    sources = list(dict.fromkeys(model.source for model in families.rows))
    panels = [
        (source, [column for column in shown if column[2] == name])
        for source in sources
        for name in dict.fromkeys(name for *_, name in shown)
    ]
    heights = [_MARGIN + _ROW * len(columns) for _, columns in panels]
    drawn = new_figure(WIDTH, sum(heights))
    axes = drawn.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    titles = list(dict.fromkeys(families.rows.values()))
    styles = {}
    for axis, (source, columns) in zip(axes, panels, strict=True):
        for model, title in families.rows.items():
            if model.source == source:
                place = titles.index(title)
                shift = 0.5 * (place - (len(titles) - 1) / 2) / len(titles)
                style = series_style(place) | ({"color": MUTED} if model.baseline else {})
                styles[title] = style | {"ls": ""}
                _draw_family(axis, averaged, model, columns, shift, styles[title], title)
        _label(axis, averaged, columns)
        if len(sources) > 1:
            axis.set_title(source)
    add_legend(drawn, styles)
    return drawn


def _draw_family(
    axis: "Axes",
    study: StudyResults,
    model: Model,
    columns: list[Column],
    shift: float,
    style: dict,
    title: str,
) -> None:
    """Draw the marks of one family, shifted from those of other families."""
    relative = study.item.option("relative")
    points = []
    for y, column in enumerate(columns):
        score = study.find(model, *column)
        if score is not None and (score["source_mean"] or not relative):
            scale = 100 / abs(score["source_mean"]) if relative else 1.0
            value = score["change" if relative else "mean"]
            points.append((scale * value, y + shift, scale * score["std"]))
    if points:
        values, places, spreads = zip(*points, strict=True)
        axis.errorbar(values, places, xerr=spreads, ms=5, elinewidth=0.9, zorder=3, label=title,
                      **style)  # fmt: skip


def _label(axis: "Axes", study: StudyResults, columns: list[Column]) -> None:
    """Label the rows and the axis of a panel."""
    names = [
        ", ".join(filter(None, (study.language(language), task))) for language, task, _ in columns
    ]
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
