"""What was gained in the language against what was lost in English, per model."""

from typing import TYPE_CHECKING

from lexigraft.report.forgetting import gains_and_losses
from lexigraft.report.mark_labels import Named, label_points
from lexigraft.report.names import row_name
from lexigraft.report.study import Study
from lexigraft.report.style import MUTED, PAPER, WIDTH, Look, new_figure, title_panel

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_COLUMNS = 2
_MOST_NAMED = 8  # points of a panel, all of which have names
_SAME = ["vocabulary", "initializer"]


def draw(study: Study, summary: "pandas.DataFrame", look: Look) -> "Figure | None":
    """Panels of sources and languages; a point per cell, hollow before training, filled after."""
    panels = _panels(study, gains_and_losses(study, summary))
    if not panels:
        return None
    columns = min(len(panels), _MOST_COLUMNS)
    rows = -(-len(panels) // columns)
    figure = new_figure(WIDTH * max(columns, 1.2) / 2, 3.1 * rows)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    named = []
    for (title, own), axis in zip(panels, axes, strict=False):
        named.append((axis, _panel(axis, own, look, study)))
        title_panel(axis, title)
        gained, lost = _names(study)
        axis.set_xlabel(lost)
        axis.set_ylabel(gained)
    for axis in axes[len(panels) :]:
        axis.remove()
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axis, points in named:
        label_points(axis, points, (0, 0))
    return figure


def caption(study: Study) -> str:
    """What the figure shows, for the page."""
    what = "Bits per byte" if not study.asked.tasks else " and ".join(study.asked.tasks)
    return (
        f"{what}: what each model gained in its language over the source model, against what it "
        "lost in English; up and left is better, dotted lines are the source model. Hollow: with "
        "new rows and no training; filled: trained. Means over seeds. Where there are more than "
        f"{_MOST_NAMED} trained models, each vocabulary has its panel; where a panel still has "
        f"more, those not under {study.reference_strategy} are small and have no name."
    )


def _panels(study: Study, found: "pandas.DataFrame") -> "list[tuple[str, pandas.DataFrame]]":
    """Titles and cells of the panels: of vocabularies, where one of all would have many points."""
    trained = found[found["strategy"] != "none"]
    several = trained["source"].nunique() > 1
    panels = []
    for source in study.order("source"):
        for language in study.order("language"):
            own = found[(found["source"] == source) & (found["language"] == language)]
            new = own.loc[own["strategy"] != "none", "vocabulary"]
            if new.empty:
                continue
            title = study.language(language) + (f", {source}" if several else "")
            vocabularies = [name for name in study.order("vocabulary")
                            if name != "source" and (new == name).any()]  # fmt: skip
            if len(new) <= _MOST_NAMED or len(vocabularies) < 2:
                panels.append((title, own))
                continue
            for name in vocabularies:
                of_it = own[own["vocabulary"].isin(["source", name])]
                panels.append((f"{title}, {name}", of_it))
    return panels


def _names(study: Study) -> tuple[str, str]:
    if study.asked.tasks:
        return f"gained: {study.asked.tasks[0]}", f"lost: {study.asked.tasks[-1]}"
    return "gained: fewer bits per byte", "lost: more bits per byte of English"


def _panel(axis: "Axes", found: "pandas.DataFrame", look: Look, study: Study) -> list[Named]:
    """Draw the points of one panel, a line from each start to its ends; returns their names."""
    axis.axhline(0, color=MUTED, lw=0.8, ls=":", zorder=1)
    axis.axvline(0, color=MUTED, lw=0.8, ls=":", zorder=1)
    trained = found[found["strategy"] != "none"]
    started = found[found["strategy"] == "none"]
    vocabularies = found.loc[found["vocabulary"] != "source", "vocabulary"].nunique()
    # Where there are too many to be told apart, those under other strategies go without a name.
    few = len(trained) <= _MOST_NAMED
    several = few and trained["strategy"].nunique() > 1
    points = []
    for cell in trained.to_dict("records"):
        colour, marker = look.colour(cell["initializer"]), look.marker(cell["initializer"])
        start = started[(started[_SAME] == [cell[axis] for axis in _SAME]).all(axis=1)]
        for x, y in start[["lost", "gained"]].itertuples(index=False):
            axis.plot([x, cell["lost"]], [y, cell["gained"]], color=colour, lw=0.8, alpha=0.4)
            axis.plot(x, y, marker, mfc=PAPER, mec=colour, mew=1.0, ms=4.5, zorder=3)
        large = few or cell["strategy"] == study.reference_strategy
        size = 6.5 if large else 4.5
        axis.plot(cell["lost"], cell["gained"], marker, color=colour, ms=size, zorder=4)
        name = row_name(cell["initializer"], cell["strategy"])
        if vocabularies > 1 and cell["initializer"] != "none":
            name += f" · {cell['vocabulary']}"
        if several:
            name += f" · {cell['strategy']}"
        if large:
            points.append(Named(cell["lost"], cell["gained"], name, colour, marker))
    axis.margins(0.2, 0.2)
    axis.locator_params(nbins=5)
    axis.grid(True)
    return points
