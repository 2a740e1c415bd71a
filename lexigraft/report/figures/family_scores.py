"""Scores of families of models by task or tested language (VocADT, Figures 2 to 5)."""

from typing import Annotated

from pydantic import Field

from lexigraft.report import drawing
from lexigraft.report.drawing import Figure, Look
from lexigraft.report.frame import StudyResults
from lexigraft.report.items import figure
from lexigraft.report.models import average_columns, with_averages
from lexigraft.report.names import metric
from lexigraft.report.tables.comparison import (
    NOTHING,
    TITLE,
    ComparisonOptions,
    compared_families,
)


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
def family_scores(study: StudyResults, look: Look) -> Figure | None:
    """A panel per source model and metric, a row per average or column, a marker per family."""
    families = compared_families(study)
    if families is None:
        return None
    relative = study.item.option("relative")
    means = average_columns(study.item.option("averages") or (), families.columns)
    columns = list(means) or families.columns
    averaged = with_averages(families.study, means) if means else families.study
    sources = list(dict.fromkeys(model.source for model in families.rows))
    panels = [
        (source, name, [column for column in columns if column[2] == name])
        for source in sources
        for name in dict.fromkeys(name for *_, name in columns)
    ]
    drawn, axes = drawing.row_panels([0.9 + 0.34 * len(rows) for *_, rows in panels], 0)
    titles = list(dict.fromkeys(families.rows.values()))
    for axis, (source, name, rows) in zip(axes, panels, strict=True):
        for model, title in families.rows.items():
            if model.source != source:
                continue
            at = titles.index(title)
            style = drawing.series_style(at, title) | {"ls": ""}
            if model.baseline:
                style["color"] = drawing.MUTED
            shift = 0.5 * (at - (len(titles) - 1) / 2) / len(titles)
            points = []
            for row, column in enumerate(rows):
                score = averaged.find(model, *column)
                if score is not None and (score["source_mean"] or not relative):
                    scale = 100 / abs(score["source_mean"]) if relative else 1.0
                    value = score["change" if relative else "mean"]
                    points.append((scale * value, row + shift, scale * score["std"]))
            if points:
                x, y, spreads = zip(*points, strict=True)
                axis.errorbar(x, y, xerr=spreads, ms=5, elinewidth=0.9, zorder=3, **style)
        for edge in range(1, len(rows)):
            axis.axhline(edge - 0.5, color=drawing.RULE, lw=0.5, zorder=1)
        drawing.name_rows(
            axis,
            [", ".join(filter(None, (averaged.language(key), task))) for key, task, _ in rows],
        )
        if relative:
            axis.axvline(0, color=drawing.INK, lw=0.8, zorder=2)
        axis.set_xlabel(metric(name).title + (", change over Source (%)" if relative else ""))
        if len(sources) > 1:
            axis.set_title(source)
    drawing.add_legend(drawn)
    return drawn
