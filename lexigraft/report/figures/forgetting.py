"""Gains in the language against losses in English, per model."""

from itertools import product
from typing import TYPE_CHECKING, Annotated

import pandas
from pandas import DataFrame
from pydantic import Field

from lexigraft.report.drawing import (
    MUTED,
    PAPER,
    Look,
    add_legend,
    panel_grid,
    points,
    title_panel,
)
from lexigraft.report.frame import CELL, SEEDED, StudyResults, models_of, select, summarize
from lexigraft.report.heldout import (
    BITS_PER_BYTE,
    heldout_lines,
    text_name,
    text_scores,
    text_tasks,
)
from lexigraft.report.items import Item, Options, TaskNames, figure
from lexigraft.report.names import ENGLISH_BITS_PER_BYTE, metric, primary_metric

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LOG = "log"  # the task name of scores from training logs


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
def forgetting(study: StudyResults, look: Look) -> "Figure | None":
    """Panels of sources and languages; a point per cell, hollow before training, filled after."""
    every = gains_and_losses(study)
    panels = []
    for source, language in product(study.order("source"), study.order("language")):
        rows = select(every, source=source, language=language)
        if (rows["strategy"] != "none").any():
            panels.append((study.panel_title(source, language), rows))
    if not panels:
        return None
    gained, lost = "gain in bits per byte", "loss in bits per byte of English"
    if text := text_name(study, ENGLISH_BITS_PER_BYTE):
        gained += f" of {text}"
    if tasks := study.item.tasks:
        gained, lost = f"gain: {tasks[0]}", f"loss: {tasks[-1]}"
    drawn, axes = panel_grid(len(panels), 2, 2.8)
    cells = pandas.concat([rows for _, rows in panels])
    trained_models = dict.fromkeys(models_of(cells[cells["strategy"] != "none"]))
    named, styles = points(study, look, [*trained_models]), {}
    for (title, rows), (axis,) in zip(panels, axes, strict=True):
        axis.axhline(0, color=MUTED, lw=0.8, ls=":", zorder=1)
        axis.axvline(0, color=MUTED, lw=0.8, ls=":", zorder=1)
        trained = rows[rows["strategy"] != "none"]
        for model, end in zip(models_of(trained), _positions(trained), strict=True):
            name, style = named[model]
            start = select(rows, initializer=model.initializer, vocabulary=model.vocabulary,
                           strategy="none")  # fmt: skip
            for x, y in _positions(start):
                axis.plot([x, end[0]], [y, end[1]], color=style["color"], lw=0.8, alpha=0.4)
                axis.plot(x, y, **style | {"mfc": PAPER, "ms": 4.5, "zorder": 3})
            axis.plot(*end, **style, zorder=4)
            if name:
                styles[name] = style
        axis.margins(0.2, 0.2)
        axis.locator_params(nbins=5)
        axis.grid(True)
        title_panel(axis, title)
        axis.set_xlabel(lost)
        axis.set_ylabel(gained)
    add_legend(drawn, styles)
    return drawn


def gains_and_losses(study: StudyResults) -> DataFrame:
    """One row per cell (without its seed) that is not the source model: `gained` and `lost`.

    Both are positive for a gain and a loss, respectively. For bits per byte, `gained` is the
    decrease on the language and `lost` the increase on English text, relative to the source model.
    If the item names one of its `tasks`, they are differences of its main metric on the language
    and on English; if it names two, of the main metric of the first (language) and of the second
    (English).

    Scores come from records or, without records of English bits per byte, from the held-out and
    English sentences scored during training.
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
        if not (summary["metric"] == ENGLISH_BITS_PER_BYTE).any():
            logged = _logged(study)
            summary = summary.iloc[:0] if logged.empty else summarize(logged)
            tasks = dict.fromkeys(summary["language"], _LOG)
        sides = [
            (text_scores(summary, tasks, measure), measure)
            for measure in (BITS_PER_BYTE, ENGLISH_BITS_PER_BYTE)
        ]
    # Changes from the source model, with signs such that gains and losses are positive.
    signed = []
    for (rows, measure), column in zip(sides, ("gained", "lost"), strict=True):
        gain = metric(measure or "").higher_is_better == (column == "gained")
        changes = rows["change"] if gain else -rows["change"]
        signed.append(rows[CELL].assign(**{column: changes}))
    both = signed[0].merge(signed[1], on=CELL)
    is_source = (both["initializer"] == "none") & (both["strategy"] == "none")
    return both[~is_source].dropna(subset=["gained", "lost"])


def _positions(rows: DataFrame) -> list[tuple[float, float]]:
    return list(rows[["lost", "gained"]].itertuples(index=False, name=None))


def _primary_metric(summary: DataFrame, task: str) -> str | None:
    rows = summary[summary["task"] == task]
    kind = str(rows["kind"].iloc[0]) if len(rows) else ""
    return primary_metric(kind, list(dict.fromkeys(rows["metric"])))


def _logged(study: StudyResults) -> DataFrame:
    """The final scores in the logs, as scores of a task.

    The first score of the trained source model is that of the source model. The log of an untrained
    cell has a single score.
    """
    heldout = heldout_lines(study.curves, ENGLISH_BITS_PER_BYTE)
    if heldout.empty:
        return DataFrame()
    rows = heldout.sort_values("step", kind="stable").groupby(SEEDED, sort=False)
    ends, starts = rows.last().reset_index(), rows.first().reset_index()
    lapt = starts[(starts["initializer"] == "none") & (starts["strategy"] != "none")]
    # If the source model also has its own log, this repeats the same scores.
    every = pandas.concat([ends, lapt.assign(strategy="none")])
    metrics = [BITS_PER_BYTE, ENGLISH_BITS_PER_BYTE]
    long = every.melt(id_vars=SEEDED, value_vars=metrics, var_name="metric")
    return long.assign(task=_LOG, kind="perplexity", run=0)
