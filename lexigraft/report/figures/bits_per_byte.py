"""Bits per byte before and after training, per initializer."""

from itertools import product

from lexigraft.report import drawing
from lexigraft.report.drawing import Figure, Look
from lexigraft.report.frame import StudyResults, select, source_model
from lexigraft.report.heldout import BITS_PER_BYTE, before_after, text_name, text_tasks
from lexigraft.report.items import figure
from lexigraft.report.models import models, stub, stub_names
from lexigraft.report.rendering import number


@figure(
    title="Bits per byte (lower is better)",
    caption="Bits per byte of held-out text before and after training, per initializer. "
    "Comparable across vocabularies. Filled: after training ({strategy}); hollow: before, where "
    "the untrained cell was evaluated on the same text. Dotted line: the source model.",
    empty="no trained cell has bits per byte",
    rank=1,
)
def bits_per_byte(study: StudyResults, look: Look) -> Figure | None:
    """A panel per source and language, a row per model from before to after."""
    every = before_after(study)
    trained = [model for model in models(study) if model.strategy != "none"]
    panels = []
    for source, language in product(study.order("source"), study.order("language")):
        measured = select(every, source=source, language=language)
        changes = {model: select(measured, **model.axes()) for model in trained}
        means = {model: rows["after"].mean() for model, rows in changes.items() if len(rows)}
        if not means:
            continue
        task = text_tasks(study).get(language, "")
        row = study.find(source_model(source), language, task, BITS_PER_BYTE)
        level = float(row["mean"]) if row is not None else None
        # Baselines first, then from best to worst.
        order = sorted(means, key=lambda model: (not model.baseline, means[model]))
        panels.append((study.panel_title(source, language), changes, order, level))
    if not panels:
        return None
    drawn, axes = drawing.row_panels(
        [0.6 + 0.23 * (len(order) + 1) for _, _, order, _ in panels], 0.2
    )
    headers = tuple(name for name in stub_names(study) if name != "Source model")
    for axis, (title, changes, order, level) in zip(axes, panels, strict=True):
        names = [" · ".join(stub(model, headers)) for model in order]
        if level is not None:
            axis.axvline(level, color=drawing.MUTED, lw=1, ls=":", zorder=1)
            axis.plot(level, 0, "*", color=drawing.MUTED, ms=6)
            drawing.write_beside(axis, 0, number(level, 3))
            names = ["Source", *names]
        for y, model in enumerate(order, len(names) - len(order)):
            rows, style = changes[model], look.style(model.initializer) | {"ls": "", "ms": 6}
            before, after = rows["before"].mean(), rows["after"].mean()
            # Without a score before training, matplotlib draws neither the line nor the mark.
            axis.plot([before, after], [y, y], color=style["color"], lw=1.6, alpha=0.55, zorder=2)
            axis.plot(before, y, **style, mfc=drawing.PAPER, mew=1.2, zorder=3)
            axis.plot(after, y, **style, zorder=4)
            spread = f" ± {number(rows['after'].std(ddof=1), 3)}" if len(rows) > 1 else ""
            drawing.write_beside(axis, y, number(after, 3) + spread)
        axis.set_title(title)
        drawing.name_rows(axis, names)
    label = " of ".join(filter(None, ["bits per byte", text_name(study)]))
    if every["before"].notna().any():
        label += ", before (hollow) → after training (filled)"
    axes[-1].set_xlabel(label)
    return drawn
