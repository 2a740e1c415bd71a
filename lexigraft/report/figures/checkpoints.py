"""Scores of tasks in the course of training (paper 004, Figures 2 to 4)."""

from typing import TYPE_CHECKING

from lexigraft.report.checkpoint_scores import checkpoint_scores
from lexigraft.report.lines import Line, lines, name_ends, of_line
from lexigraft.report.metrics import metric
from lexigraft.report.study import Study
from lexigraft.report.style import MUTED, WIDTH, Look, new_figure, plain_axis, title_panel
from lexigraft.report.summarize import pick
from lexigraft.report.tables.results import quality_columns

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_COLUMNS = 3


def draw(study: Study, summary: "pandas.DataFrame", look: Look) -> "Figure | None":
    """A panel for each source, language, task and metric; a line per trained model."""
    scores = checkpoint_scores(study)
    drawn = lines(study, look)
    asked = [key for key in quality_columns(study, summary) if _measured(scores, *key)]
    panels = [
        (source, *key)
        for source in study.order("source")
        for key in asked
        if _measured(scores[scores["source"] == source], *key)
    ]
    if not panels or not drawn:
        return None
    columns = min(len(panels), _MOST_COLUMNS)
    rows = -(-len(panels) // columns)
    figure = new_figure(max(WIDTH * columns / 2, 4.2), 2.6 * rows)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    several = len({source for source, *_ in panels}) > 1
    ends: list[tuple[Axes, list]] = []
    for (source, language, task, name), axis in zip(panels, axes, strict=False):
        own = scores[(scores["source"] == source) & (scores["language"] == language)
                     & (scores["task"] == task) & (scores["metric"] == name)]  # fmt: skip
        untouched = pick(summary, source=source, language=language, task=task, metric=name,
                         initializer="none", strategy="none")  # fmt: skip
        if untouched is not None:
            axis.axhline(float(untouched["mean"]), color=MUTED, lw=0.9, ls=":", zorder=1)
        mine = [line for line in drawn if line.model.source == source]
        ends.append((axis, _panel(axis, own, mine)))
        title_panel(
            axis, f"{study.language(language)}, {task}" + (f", {source}" if several else "")
        )
        arrow = "↓" if metric(name).lower_is_better else "↑"
        axis.set_ylabel(f"{metric(name).title} {arrow}")
        axis.set_xlabel("checkpoint")
    for axis in axes[len(panels) :]:
        axis.remove()
    name_ends(figure, ends)
    return figure


def caption(study: Study) -> str:
    """What the figure shows, for the page."""
    return (
        "Scores of equally spaced checkpoints of training: 0 is the model with its new rows and no "
        "training, the last one the trained cell. Bars: one standard deviation over seeds. Dotted: "
        "the source model."
    )


def _measured(scores: "pandas.DataFrame", language: str, task: str, name: str) -> bool:
    fits = (scores["language"] == language) & (scores["task"] == task) & (scores["metric"] == name)
    return bool(fits.any())


def _panel(
    axis: "Axes", scores: "pandas.DataFrame", drawn: list[Line]
) -> list[tuple[float, float, str, str]]:
    """Draw the lines of one panel; returns their ends with names."""
    from matplotlib.ticker import MaxNLocator

    ends: list[tuple[float, float, str, str]] = []
    plain_axis(axis, "y")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    for line in drawn:
        own = of_line(scores, line).sort_values("checkpoint")
        if own.empty:
            continue
        axis.errorbar(own["checkpoint"], own["mean"], yerr=own["std"], ms=4, capsize=1.5,
                      elinewidth=0.8, **line.style)  # fmt: skip
        end = own.iloc[-1]
        colour = line.style["color"]
        ends.append((float(end["checkpoint"]), float(end["mean"]), line.name, colour))
    return ends
