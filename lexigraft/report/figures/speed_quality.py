"""Speed-up on the same text against quality (Yamaguchi et al., Figure 2)."""

from itertools import product

from lexigraft.report import drawing
from lexigraft.report.drawing import Figure, Look
from lexigraft.report.frame import CELL, StudyResults, models_of, select
from lexigraft.report.items import TaskOptions, figure
from lexigraft.report.models import quality_columns
from lexigraft.report.names import metric
from lexigraft.report.speed import speed_ups


@figure(
    title="Speed-up and quality",
    caption="Speed-up on the same text (characters per second over the source model, "
    "smallest batch measured) against quality. Up and right is better: axes on which lower is "
    "better are inverted. Scores that are noise are left out. Dotted lines: the source model. "
    "If a panel has too many models, those that were not trained under {strategy} are small and "
    "unnamed, in the colour of their initializer.",
    empty="speed and a quality above the noise were not both measured",
    options=TaskOptions,
)
def speed_quality(study: StudyResults, look: Look) -> Figure | None:
    """A panel per source, language and score; a point per cell; the source as dotted lines."""
    rows = speed_ups(study)
    measured = set(rows[["source", "language"]].itertuples(index=False, name=None))
    panels = [
        (source, column)
        for source, column in product(study.order("source"), quality_columns(study))
        if (source, column[0]) in measured and not study.is_noise(source, column)
    ]
    if not panels:
        return None
    titles = [study.panel_title(source, language, task) for source, (language, task, _) in panels]
    drawn, axes = drawing.panel_grid(titles, 2, 2.8)
    grafts = dict.fromkeys(model for model in models_of(rows) if not model.is_source)
    styles = drawing.points(study, look, [*grafts])
    for (source, (language, task, name)), (axis,) in zip(panels, axes, strict=True):
        of_task = select(rows, prompts=study.task_kind(task))
        # A score without generated text is combined with the first measured speed.
        speed_task = [*of_task["task"], *rows["task"]][0]
        keys = {"source": source, "language": language}
        speed = select(rows, task=speed_task, **keys)[[*CELL, "mean"]]
        cells = select(study.summary, task=task, metric=name, **keys)
        cells = cells.merge(speed, on=CELL, suffixes=("", "_speed_up"))
        for model, row in zip(models_of(cells), cells.to_dict("records"), strict=True):
            x, y = row["mean_speed_up"], row["mean"]
            of_source = {"label": "Source", "color": drawing.INK, "marker": "*", "ls": ""}
            style = styles.get(model, of_source)
            if model.is_source:
                axis.axhline(y, color=drawing.MUTED, lw=0.8, ls=":", zorder=1)
                axis.axvline(x, color=drawing.MUTED, lw=0.8, ls=":", zorder=1)
            axis.errorbar(x, y, yerr=row["std"] if style["label"] else None, elinewidth=0.9,
                          capsize=2, zorder=3, **style)  # fmt: skip
        if not metric(name).higher_is_better:
            axis.invert_yaxis()
        drawing.scatter_axis(axis, "speed-up on the same text (×)", metric(name).title)
    drawing.add_legend(drawn)
    return drawn
