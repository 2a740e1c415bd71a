"""Alignment against the initial training loss (UnifyVocab, Figures 3b and 8)."""

from lexigraft.report import drawing
from lexigraft.report.drawing import Figure, Look
from lexigraft.report.frame import CELL, StudyResults
from lexigraft.report.items import figure
from lexigraft.report.names import metric
from lexigraft.report.table import number
from lexigraft.report.tables.alignment import QUALITY, alignments, rank_correlation


@figure(
    title="Alignment and first training loss",
    caption="Alignment of the vocabularies against the training loss of the first step, one point "
    "per initializer. Each recipe renames the target tokens of a text to source tokens; the result "
    "is compared with the source tokenizer's own tokens (BLEU, BLEU-1) or in meaning (similarity). "
    "The loss is that under {strategy} before any update, a mean over seeds. Below each panel: "
    "Spearman's rank correlation over its points, which UnifyVocab finds negative.",
    empty="no vocabulary has two initializers with an alignment and a training log",
    reads=("alignment",),
)
def alignment_loss(study: StudyResults, look: Look) -> Figure | None:
    """A row of panels per language and vocabulary, a column per measure, a point per initializer.

    Vocabularies with a single initializer allow no comparison and are left out.
    """
    frame = alignments(study)
    if frame.empty or "bleu" not in frame:
        return None
    frame = frame[frame["first_loss"].notna()]
    panels = [(key, group) for key, group in frame.groupby(CELL[:3], sort=False) if len(group) > 1]
    measures = [name for name in QUALITY if name in frame and frame[name].notna().any()]
    if not panels:
        return None
    drawn = drawing.new_figure(drawing.WIDTH, 2.6 * len(panels))
    axes = drawn.subplots(len(panels), len(measures), squeeze=False, sharey="row")
    for (key, group), row in zip(panels, axes, strict=True):
        drawing.title_panel(row[0], study.panel_title(*key))
        for axis, measure in zip(row, measures, strict=True):
            rows = group[group[measure].notna()]
            for initializer, x, y in zip(
                rows["initializer"], rows[measure], rows["first_loss"], strict=True
            ):
                axis.plot(x, y, **look.style(initializer) | {"ls": "", "ms": 6})
            correlation = rank_correlation(rows[measure], rows["first_loss"])
            label = f"{metric(measure).title}, n = {len(rows)}"
            if correlation is not None:
                label += f"\nrank correlation {number(correlation, 2)}"
            first = axis is row[0]
            drawing.scatter_axis(
                axis, label, "first step's training loss, nats per token" if first else ""
            )
    drawing.add_legend(drawn)
    return drawn
