"""Gains in the language against losses in English, per model."""

from dataclasses import replace
from itertools import product
from typing import Annotated

import pandas
from pandas import DataFrame
from pydantic import Field

from lexigraft.report import drawing
from lexigraft.report.drawing import Figure, Look
from lexigraft.report.frame import CELL, StudyResults, models_of, select
from lexigraft.report.heldout import BITS_PER_BYTE, text_name, text_scores, text_tasks
from lexigraft.report.items import Item, Options, TaskNames, figure
from lexigraft.report.names import ENGLISH_BITS_PER_BYTE, metric, primary_metric


class ForgettingOptions(Options):
    """The options of a figure of forgetting."""

    tasks: Annotated[
        TaskNames,
        Field(
            description="instead of bits per byte: one task, whose score is shown against its "
            "English score, or two tasks, of which the second tests English"
        ),
    ] = ()


def _caption(item: Item) -> str:
    what = " and ".join(item.tasks) or "bits per byte"
    return (
        "Gain of each model in its language over the source model, against its loss in English. "
        f"In {what}; up and left is better, dotted lines mark the source model. Hollow: with new "
        "rows before training; filled: trained. Means over seeds. If a panel has too many models, "
        "those that were not trained under {strategy} are small and unnamed."
    )


@figure(
    title="Gains in the language and losses in English",
    caption=_caption,
    empty="no trained cell and its source model were both evaluated on English text",
    options=ForgettingOptions,
)
def forgetting(study: StudyResults, look: Look) -> Figure | None:
    """Panels of sources and languages; a point per cell, hollow before training, filled after."""
    every = gains_and_losses(study)
    panels = {}
    for source, language in product(study.order("source"), study.order("language")):
        rows = select(every, source=source, language=language)
        if (rows["strategy"] != "none").any():
            panels[study.panel_title(source, language)] = rows
    if not panels:
        return None
    gained, lost = "gain in bits per byte", "loss in bits per byte of English"
    if text := text_name(study, ENGLISH_BITS_PER_BYTE):
        gained += f" of {text}"
    if tasks := study.item.tasks:
        gained, lost = f"gain: {tasks[0]}", f"loss: {tasks[-1]}"
    drawn, axes = drawing.panel_grid([*panels], 2, 2.8)
    cells = pandas.concat([*panels.values()])
    trained_models = dict.fromkeys(models_of(cells[cells["strategy"] != "none"]))
    styles = drawing.points(study, look, [*trained_models])
    for rows, (axis,) in zip(panels.values(), axes, strict=True):
        axis.axhline(0, color=drawing.MUTED, lw=0.8, ls=":", zorder=1)
        axis.axvline(0, color=drawing.MUTED, lw=0.8, ls=":", zorder=1)
        ends = zip(rows["lost"], rows["gained"], strict=True)
        positions = dict(zip(models_of(rows), ends, strict=True))
        for model, end in positions.items():
            if model.strategy == "none":
                continue
            style = styles[model]
            if (start := positions.get(replace(model, strategy="none"))) is not None:
                axis.plot(*zip(start, end, strict=True), color=style["color"], lw=0.8, alpha=0.4)
                hollow = {"label": None, "mfc": drawing.PAPER, "ms": 4.5, "zorder": 3}
                axis.plot(*start, **style | hollow)
            axis.plot(*end, **style, zorder=4)
        drawing.scatter_axis(axis, lost, gained)
    drawing.add_legend(drawn)
    return drawn


def gains_and_losses(study: StudyResults) -> DataFrame:
    """One row per cell (without its seed) that is not the source model: `gained` and `lost`.

    Both are changes from the source model, positive for a gain and a loss: of bits per byte on the
    language and on English text; or, if the item names `tasks`, of the main metric of the first on
    the language, and of that metric on English or of the second task's main metric.
    """
    summary = study.summary
    if study.item.tasks:
        first, last = study.item.tasks[0], study.item.tasks[-1]
        name = _primary_metric(summary, first)
        english = f"english_{name}" if last == first else _primary_metric(summary, last)
        sides = [
            (select(summary, task=task, metric=measure), measure)
            for task, measure in ((first, name), (last, english))
        ]
    else:
        tasks = text_tasks(study, ENGLISH_BITS_PER_BYTE)
        sides = [
            (text_scores(summary, tasks, measure), measure)
            for measure in (BITS_PER_BYTE, ENGLISH_BITS_PER_BYTE)
        ]
    signed = []
    for (rows, measure), column in zip(sides, ("gained", "lost"), strict=True):
        gain = metric(measure or "").higher_is_better == (column == "gained")
        changes = rows["change"] if gain else -rows["change"]
        signed.append(rows[CELL].assign(**{column: changes}))
    both = signed[0].merge(signed[1], on=CELL)
    is_source = (both["initializer"] == "none") & (both["strategy"] == "none")
    return both[~is_source].dropna(subset=["gained", "lost"])


def _primary_metric(summary: DataFrame, task: str) -> str | None:
    rows = summary[summary["task"] == task]
    kind = str(rows["kind"].iloc[0]) if len(rows) else ""
    return primary_metric(kind, list(dict.fromkeys(rows["metric"])))
