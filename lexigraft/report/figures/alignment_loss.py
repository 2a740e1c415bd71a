"""Alignment against the initial training loss (UnifyVocab, Figures 3b and 8)."""

from lexigraft.report.items import Kind
from lexigraft.report.labels import Named, label_marks
from lexigraft.report.metrics import metric
from lexigraft.report.names import initializer_name
from lexigraft.report.study import StudyResults
from lexigraft.report.style import WIDTH, Axes, Figure, Look, new_figure, title_panel
from lexigraft.report.summarize import CELL, Frame
from lexigraft.report.table import number
from lexigraft.report.tables.alignment import QUALITY, alignments, rank_correlation

KIND = Kind(
    title="Alignment and first training loss",
    caption="Alignment of the vocabularies against the training loss of the first step, one point "
    "per initializer. Each recipe renames the target tokens of a text to source tokens; the result "
    "is compared with the source tokenizer's own tokens (BLEU, BLEU-1) or in meaning (similarity). "
    "The loss is that under {strategy} before any update, a mean over seeds. Below each panel: "
    "Spearman's rank correlation over its points, which UnifyVocab finds negative.",
    empty="no vocabulary has two initializers with an alignment and a training log",
    reads=("alignment",),
)


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """A row of panels per language and vocabulary, a column per measure, a point per initializer.

    Vocabularies with a single initializer allow no comparison and are left out.
    """
    frame = alignments(study)
    if frame.empty or "bleu" not in frame:
        return None
    frame = frame[frame["first_loss"].notna()]
    panels = [(key, group) for key, group in frame.groupby(CELL[:3], sort=False) if len(group) > 1]
    names = [name for name in QUALITY if name in frame and frame[name].notna().any()]
    if not panels:
        return None
    figure = new_figure(WIDTH, 2.9 * len(panels))
    axes = figure.subplots(len(panels), len(names), squeeze=False)
    points = []
    for (key, group), row in zip(panels, axes, strict=True):
        title_panel(row[0], study.place(*key))
        row[0].set_ylabel("first step's training loss, nats per token")
        points += [(axis, _points(axis, group[group[name].notna()], name, look), None)
                   for axis, name in zip(row, names, strict=True)]  # fmt: skip
    label_marks(figure, points)
    return figure


def _points(axis: Axes, shown: Frame, name: str, look: Look) -> list[Named]:
    """Draw a panel; returns the positions and names of its points."""
    points = []
    for found in shown.to_dict("records"):
        key, x, y = found["initializer"], found[name], found["first_loss"]
        colour, marker, _ = look.of(key)
        axis.plot(x, y, marker, color=colour, ms=6)
        points.append(Named(x, y, initializer_name(key), colour, marker))
    axis.margins(0.2, 0.2)
    axis.locator_params(axis="x", nbins=5)
    axis.grid(True)
    relation = rank_correlation(shown[name], shown["first_loss"]) if len(shown) else None
    correlation = "" if relation is None else f", rank correlation {number(relation, 2)}"
    axis.set_xlabel(f"{metric(name).title}{correlation}, n = {len(shown)}")
    return points
