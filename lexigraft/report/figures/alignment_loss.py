"""Alignment against the loss that training starts from (paper 003, Figures 3b and 8)."""

from typing import TYPE_CHECKING

from lexigraft.report.aligned import QUALITY, alignments, rank_correlation
from lexigraft.report.mark_labels import Named, label_points
from lexigraft.report.metrics import metric
from lexigraft.report.names import initializer_name
from lexigraft.report.study import Study
from lexigraft.report.style import WIDTH, Look, new_figure, title_panel
from lexigraft.report.tables.table import number

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KEY = ["source", "language", "vocabulary"]


def draw(study: Study, summary: "pandas.DataFrame", look: Look) -> "Figure | None":
    """A row of panels per language and vocabulary, a column per measure, a point per initializer.

    Vocabularies of a single initializer say nothing about initializers and are left out.
    """
    frame = alignments(study)
    if frame.empty or "bleu" not in frame:
        return None
    frame = frame[frame["first_loss"].notna()]
    panels = [(key, group) for key, group in frame.groupby(KEY, sort=False) if len(group) > 1]
    names = [name for name in QUALITY if name in frame and frame[name].notna().any()]
    if not panels:
        return None
    width = WIDTH * max(len(names), 2) / 2 if len(names) < 3 else 1.3 * WIDTH
    figure = new_figure(width, 2.9 * len(panels))
    axes = figure.subplots(len(panels), len(names), squeeze=False)
    points = []
    for (key, group), row in zip(panels, axes, strict=True):
        several = len(study.order("source")) > 1
        title = f"{study.language(key[1])}, {key[2]}"
        title_panel(row[0], f"{key[0]}, {title}" if several else title)
        row[0].set_ylabel("first step's training loss, nats per token")
        points += [(axis, _points(axis, group, name, look))
                   for axis, name in zip(row, names, strict=True)]  # fmt: skip
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axis, named in points:
        label_points(axis, named)
    return figure


def caption(study: Study) -> str:
    """What the figure shows, for the page."""
    return (
        "Text renamed from target to source tokens by each initializer's recipe, compared with the "
        "source's own tokens (BLEU, BLEU-1) or in meaning (similarity), against the training loss "
        f"of the first step under {study.reference_strategy}, before any update: the mean over "
        "seeds. Under each panel Spearman's rank correlation over its points; paper 003 finds it "
        "negative."
    )


def _points(axis: "Axes", group: "pandas.DataFrame", name: str, look: Look) -> list[Named]:
    """Draw a panel; returns where its points are and what they are called."""
    shown = group[group[name].notna()] if name in group else group.iloc[:0]
    points = []
    for found in shown.to_dict("records"):
        key, x, y = found["initializer"], found[name], found["first_loss"]
        axis.plot(x, y, look.marker(key), color=look.colour(key), ms=6)
        points.append(Named(x, y, initializer_name(key), look.colour(key), look.marker(key)))
    axis.margins(0.2, 0.2)
    axis.locator_params(axis="x", nbins=5)
    axis.grid(True)
    relation = rank_correlation(shown[name], shown["first_loss"]) if len(shown) else None
    text = f"{metric(name).title}, n = {len(shown)}"
    if relation is not None:
        text = f"{metric(name).title}, rank correlation {number(relation, 2)}, n = {len(shown)}"
    axis.set_xlabel(text)
    return points
