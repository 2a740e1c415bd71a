"""Gains in the language against losses in English, per model."""

from dataclasses import replace
from itertools import product

import pandas
from pandas import DataFrame

from lexigraft.report import drawing
from lexigraft.report.drawing import Figure, Look
from lexigraft.report.frame import CELL, StudyResults, models_of, select
from lexigraft.report.heldout import BITS_PER_BYTE, text_name, text_scores, text_tasks
from lexigraft.report.items import figure
from lexigraft.report.names import ENGLISH_BITS_PER_BYTE


@figure(
    title="Gains in the language and losses in English",
    caption="Gain of each model in its language over the source model, against its loss in English."
    " In bits per byte; up and left is better, dotted lines mark the source model. Hollow: with new"
    " rows before training; filled: trained. Means over seeds.",
    empty="no trained cell and its source model were both evaluated on English text",
)
def forgetting(study: StudyResults, look: Look) -> Figure | None:
    """Panels of sources and languages; a point per cell, hollow before training, filled after."""
    every = gains_and_losses(study)
    panels = {}
    for source, language in product(study.order("source"), study.order("language")):
        rows = select(every, source=source, language=language)
        if (rows["strategy"] != "none").any():
            panels[study.panel_title(source, language)] = rows
    if not panels:
        return None
    gained, lost = "gain in bits per byte", "loss in bits per byte of English"
    if text := text_name(study, ENGLISH_BITS_PER_BYTE):
        gained += f" of {text}"
    drawn, axes = drawing.panel_grid([*panels], 2, 2.8)
    cells = pandas.concat([*panels.values()])
    trained_models = dict.fromkeys(models_of(cells[cells["strategy"] != "none"]))
    styles = drawing.lines(look, [*trained_models], points=True)
    for rows, (axis,) in zip(panels.values(), axes, strict=True):
        axis.axhline(0, color=drawing.MUTED, lw=0.8, ls=":", zorder=1)
        axis.axvline(0, color=drawing.MUTED, lw=0.8, ls=":", zorder=1)
        ends = zip(rows["lost"], rows["gained"], strict=True)
        positions = dict(zip(models_of(rows), ends, strict=True))
        for model, end in positions.items():
            if model.strategy == "none":
                continue
            style = styles[model] | {"ls": "", "ms": 6.5}
            if (start := positions.get(replace(model, strategy="none"))) is not None:
                axis.plot(*zip(start, end, strict=True), color=style["color"], lw=0.8, alpha=0.4)
                hollow = {"label": None, "mfc": drawing.PAPER, "ms": 4.5, "zorder": 3}
                axis.plot(*start, **style | hollow)
            axis.plot(*end, **style, zorder=4)
        drawing.scatter_axis(axis, lost, gained)
    drawing.add_legend(drawn)
    return drawn


def gains_and_losses(study: StudyResults) -> DataFrame:
    """One row per cell (without its seed) that is not the source model: `gained` and `lost`.

    Both are changes of bits per byte from the source model, on the language and on English text,
    positive for a gain and a loss.
    """
    tasks = text_tasks(study, ENGLISH_BITS_PER_BYTE)
    frames = [
        text_scores(study.summary, tasks, metric)[[*CELL, "change"]]
        for metric in (BITS_PER_BYTE, ENGLISH_BITS_PER_BYTE)
    ]
    both = frames[0].merge(frames[1], on=CELL, suffixes=("", "_english"))
    both = both.assign(gained=-both["change"], lost=both["change_english"])
    is_source = (both["initializer"] == "none") & (both["strategy"] == "none")
    return both[~is_source].dropna(subset=["gained", "lost"])
