"""Scores of families of models by task or tested language (VocADT, Figures 2 to 5)."""

from typing import Annotated

from pydantic import Field

from lexigraft.report.averages import average_columns, with_averages
from lexigraft.report.items import Kind
from lexigraft.report.metrics import metric
from lexigraft.report.models import find
from lexigraft.report.study import StudyResults
from lexigraft.report.style import (
    COLOURS,
    INK,
    MARKERS,
    MUTED,
    RULE,
    WIDTH,
    Figure,
    Look,
    new_figure,
    plain_axis,
)
from lexigraft.report.tables.comparison import ComparisonOptions, compared

_ROW, _MARGIN = 0.34, 0.9  # inches


class FamilyScoreOptions(ComparisonOptions):
    """The options of a figure of families of models."""

    relative: Annotated[
        bool, Field(description="whether changes over Source are drawn, in percent, not scores")
    ] = False


KIND = Kind(
    title="Families of models",
    caption="Scores of families of models: the averages that the item names, or else each tested "
    "language and task. A panel for each metric. Bars: one standard deviation. Grey: source models "
    "with their own vocabulary.",
    empty="no model of these families was tested on these tasks",
    options=FamilyScoreOptions,
)


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """A panel per source model and metric, a row per average or column, a marker per family."""
    found = compared(study)
    if found is None:
        return None
    item = study.item
    means = average_columns(item.option("averages") or (), found.columns)
    shown = list(means) or found.columns
    averaged = with_averages(found.study, means) if means else found.study
    names = list(dict.fromkeys(name for *_, name in shown))
    sources = list(dict.fromkeys(model.source for model in found.rows))
    families = list(dict.fromkeys(found.rows.values()))
    panels = [(source, [column for column in shown if column[2] == name])
              for source in sources for name in names]  # fmt: skip
    heights = [_MARGIN + _ROW * len(columns) for _, columns in panels]
    figure = new_figure(WIDTH, sum(heights) + 0.3)
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, (source, columns) in zip(axes, panels, strict=True):
        rows = [model for model in found.rows if model.source == source]
        for model in rows:
            title = found.rows[model]
            place = families.index(title)
            shift = 0.5 * (place - (len(families) - 1) / 2) / max(1, len(families))
            colour = MUTED if model.baseline else COLOURS[place % len(COLOURS)]
            points = []
            for y, column in enumerate(columns):
                score = find(averaged.summary, model, *column)
                if score is None:
                    continue
                scale = 100 / abs(score["source_mean"]) if item.option("relative") else 1.0
                value = score["change"] if item.option("relative") else score["mean"]
                points.append((value * scale, y + shift, score["std"] * scale))
            if points:
                x, y, spread = zip(*points, strict=True)
                axis.errorbar(x, y, xerr=[0.0 if one != one else one for one in spread], ls="",
                              marker=MARKERS[place % len(MARKERS)], color=colour, ms=5, lw=0.9,
                              label=title, zorder=3)  # fmt: skip
        labels = [", ".join(filter(None, (averaged.language(language), task)))
                  for language, task, _ in columns]  # fmt: skip
        axis.set_yticks(range(len(columns)), labels)
        axis.set_ylim(len(columns) - 0.5, -0.5)
        for edge in range(1, len(columns)):
            axis.axhline(edge - 0.5, color=RULE, lw=0.5, zorder=1)
        plain_axis(axis)
        title = metric(columns[0][2]).title
        if item.option("relative"):
            axis.axvline(0, color=INK, lw=0.8, zorder=2)
            title += ", change over Source (%)"
        axis.set_xlabel(title)
        if len(sources) > 1:
            axis.set_title(source)
    marks = dict(zip(*reversed(_legend(axes)), strict=True))
    figure.legend([*marks.values()], [*marks], loc="outside upper right", ncols=4, frameon=False,
                  fontsize=7.5)  # fmt: skip
    return figure


def _legend(axes: list) -> tuple[list, list]:
    """Marks and names of all panels; of a name the first mark."""
    marks, names = [], []
    for axis in axes:
        for mark, name in zip(*axis.get_legend_handles_labels(), strict=True):
            if name not in names:
                marks.append(mark)
                names.append(name)
    return marks, names
