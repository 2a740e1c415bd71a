"""Speed-up on the same text against quality (Yamaguchi et al., Figure 2)."""

from lexigraft.report.items import Kind, TaskOptions
from lexigraft.report.labels import Named, label_marks
from lexigraft.report.metrics import metric
from lexigraft.report.names import row_name
from lexigraft.report.study import StudyResults
from lexigraft.report.style import MUTED, Axes, Figure, Look, panel_grid, title_panel
from lexigraft.report.summarize import CELL, Frame, select
from lexigraft.report.tables.results import quality_columns
from lexigraft.report.tables.speed import speed_up_rows

_MOST_COLUMNS = 2
_MOST_NAMED = 16  # maximum number of points of a panel that all have names


KIND = Kind(
    title="Speed-up and quality",
    caption="Speed-up on the same text (characters per second over the source model, "
    "smallest batch measured) against quality. Up and right is better: axes on which lower is "
    "better are inverted. Scores that are noise are left out. Dotted lines: the source model. "
    "Large points with names: the initializers under {strategy}; small points: other strategies, "
    "in the colour of their initializer.",
    empty="speed and a quality above the noise were not both measured",
    options=TaskOptions,
)


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """A panel per language and score; a point per cell; the source model as dotted lines."""
    fast = speed_up_rows(study)
    measured = set(fast[["source", "language"]].itertuples(index=False, name=None))
    panels = [
        column
        for column in quality_columns(study)
        if any(
            language == column[0] and not study.is_noise(source, column)
            for source, language in measured
        )
    ]
    if fast.empty or not panels:
        return None
    # The smallest batch of each task: one user waiting for one text.
    fast = fast[fast["batch"] == fast.groupby("task")["batch"].transform("min")]
    figure, axes = panel_grid(len(panels), _MOST_COLUMNS, 3.1)
    named = []
    for (language, task, name), (axis,) in zip(panels, axes, strict=True):
        kind = study.kind(task)
        fitting = [name for name, of in study.prompts_from.items() if of == kind]
        # A score without generated text is combined with the first measured speed.
        chosen = [*fitting, *fast["task"].drop_duplicates()][0]
        speed = select(fast, language=language, task=chosen)[[*CELL, "speed_up"]]
        cells = select(study.summary, language=language, task=task, metric=name).merge(
            speed, on=CELL
        )
        untouched = select(cells, initializer="none", strategy="none")
        cross = untouched[["speed_up", "mean"]].iloc[0].tolist() if len(untouched) else None
        named.append((axis, _points(axis, cells, name, look, study), cross))
        title_panel(axis, f"{study.language(language)}, {task}")
    label_marks(figure, named)
    return figure


def _points(axis: Axes, cells: Frame, name: str, look: Look, study: StudyResults) -> list[Named]:
    """Draw the points of a panel; returns their names.

    If there are too many points, those under other strategies are not named.
    """
    reference = study.reference_strategy or "none"
    several = cells["vocabulary"].nunique() > 2
    points = []
    for cell in cells.to_dict("records"):
        colour, marker, _ = look.of(cell["initializer"])
        x, y = cell["speed_up"], cell["mean"]
        source = cell["initializer"] == "none" and cell["strategy"] == "none"
        large = source or cell["strategy"] == reference
        if large and cell["std"] == cell["std"]:
            axis.errorbar(x, y, yerr=cell["std"], color=colour, lw=0.9, capsize=2, zorder=2)
        axis.plot(x, y, marker, color=colour, ms=7 if large else 4,
                  mfc=colour if large else "none", zorder=3)  # fmt: skip
        if source:
            axis.axhline(y, color=MUTED, lw=0.8, ls=":", zorder=1)
            axis.axvline(x, color=MUTED, lw=0.8, ls=":", zorder=1)
        # Points under other strategies have the initializer's colour and the strategy's name.
        label = row_name(cell["initializer"], cell["strategy"]) if large else cell["strategy"]
        if study.has_several_sources:
            label = f"{cell['source']} · {label}"
        if several and cell["initializer"] != "none":
            label += f" · {cell['vocabulary']}"
        if large or len(cells) <= _MOST_NAMED:
            points.append(Named(x, y, label, colour, marker))
    axis.margins(0.15, 0.15)
    low, high = axis.get_xlim()
    # Adapted cells are at the right; their names need room next to them.
    axis.set_xlim(low, high + 0.4 * (high - low))
    axis.grid(True)
    if metric(name).lower_is_better:
        axis.invert_yaxis()
    axis.set_xlabel("speed-up on the same text (×)")
    axis.set_ylabel(metric(name).title)
    return points
