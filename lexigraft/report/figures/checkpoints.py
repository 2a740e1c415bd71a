"""Scores of tasks during training (CW2V, Figures 2 to 4)."""

import pandas
from pandas import DataFrame

from lexigraft.report import drawing
from lexigraft.report.drawing import Figure, Look
from lexigraft.report.frame import CELL, COLUMN, SEEDED, Column, StudyResults, select, source_model
from lexigraft.report.items import ScoreOptions, figure
from lexigraft.report.models import (
    Averages,
    average_columns,
    mean_rows,
    quality_columns,
    with_averages,
)
from lexigraft.report.names import metric

_KEYS = [*SEEDED, "task", "kind", "metric"]


class CheckpointOptions(ScoreOptions):
    """The options of a figure of checkpoints."""

    averages: Averages = ()


@figure(
    title="Scores during training",
    caption="Scores of tasks, or the averages that the item names, on equally spaced training "
    "checkpoints. Checkpoint 0 is the model with its new rows before training, the last one is the "
    "trained cell. Bars: one standard deviation over seeds. Dotted: the source model.",
    empty="no task was run on training checkpoints",
    options=CheckpointOptions,
)
def checkpoints(study: StudyResults, look: Look) -> Figure | None:
    """A panel for each source, language, task and metric; a line per trained model."""
    columns = quality_columns(study)
    means = average_columns(study.item.option("averages") or (), columns)
    scores = checkpoint_scores(study, means)
    lines = drawing.trained_lines(study, look)
    measured = set(scores[["source", *COLUMN]].itertuples(index=False, name=None))
    panels = [
        (source, *column)
        for source in study.order("source")
        for column in (means or columns)
        if (source, *column) in measured
    ]
    if not panels or not lines:
        return None
    averaged = with_averages(study, means) if means else study
    titles = [averaged.panel_title(source, language, task) for source, language, task, _ in panels]
    drawn, axes = drawing.panel_grid(titles, 2, 2.4)
    for (source, language, task, name), (axis,) in zip(panels, axes, strict=True):
        level = averaged.find(source_model(source), language, task, name)
        if level is not None:
            axis.axhline(float(level["mean"]), color=drawing.MUTED, lw=0.9, ls=":", zorder=1)
        drawing.plain_axis(axis, "y")
        axis.locator_params(axis="x", integer=True)
        panel = select(scores, language=language, task=task, metric=name)
        for model, style in lines.items():
            rows = select(panel, **model.axes()).sort_values("checkpoint")
            if len(rows) and model.source == source:
                axis.errorbar(rows["checkpoint"], rows["mean"], yerr=rows["std"], ms=4,
                              capsize=1.5, elinewidth=0.8, **style)  # fmt: skip
        arrow = "↑" if metric(name).higher_is_better else "↓"
        noise = " (noise)" if study.is_noise(source, (language, task, name)) else ""
        axis.set_ylabel(f"{metric(name).title} {arrow}{noise}")
        axis.set_xlabel("checkpoint")
    drawing.add_legend(drawn)
    return drawn


def checkpoint_scores(
    study: StudyResults, means: dict[Column, list[Column]] | None = None
) -> DataFrame:
    """One row per trained cell (without its seed), task, metric and checkpoint, and for `means`.

    `mean` and `std` over seeds are computed from means over runs. `checkpoint` 0 is the cell before
    training (of the same seed, or the mean over all seeds: many cells have only one seed), the
    largest one is the trained cell. Empty without records of checkpoints.
    """
    during = study.checkpoints
    keys = [*CELL, "task", "kind", "metric", "checkpoint"]
    if during.empty:
        return DataFrame(columns=[*keys, "mean", "std"])
    cells = during[_KEYS].drop_duplicates()
    axes = [axis for axis in _KEYS if axis not in ("strategy", "seed")]
    untrained = study.scores[study.scores["strategy"] == "none"]
    of_seeds = untrained.groupby([*axes, "seed"], sort=False)["value"].mean().rename("of_seed")
    over_seeds = untrained.groupby(axes, sort=False)["value"].mean()
    before = cells.join(of_seeds, on=[*axes, "seed"]).join(over_seeds, on=axes)
    before["value"] = before.pop("of_seed").fillna(before["value"])
    before = before[before["value"].notna()].assign(checkpoint=0)
    last = study.training[[*SEEDED, "checkpoints"]].rename(columns={"checkpoints": "checkpoint"})
    after = study.scores.merge(cells, on=_KEYS).merge(last, on=SEEDED)
    rows = pandas.concat([before, during, after], ignore_index=True)
    by_seed = rows.groupby([*_KEYS, "checkpoint"], sort=False)["value"].mean().reset_index()
    kinds = {task: study.task_kind(task) or "average" for _, task, _ in means or ()}
    by_seed = pandas.concat([by_seed, mean_rows(by_seed, means or {}, kinds)], ignore_index=True)
    return by_seed.groupby(keys, sort=False)["value"].agg(["mean", "std"]).reset_index()
