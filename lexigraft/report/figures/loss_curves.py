"""Training loss and held-out bits per byte or perplexity, by step or by token."""

from typing import Annotated, Literal

from pydantic import Field

from lexigraft.report.curves import (
    End,
    Line,
    Scale,
    draw_curve,
    lines,
    name_ends,
    of_next_tokens,
    scale,
    sentences_scored,
)
from lexigraft.report.items import Item, Kind, Options
from lexigraft.report.study import StudyResults
from lexigraft.report.style import Axes, Figure, Look, panel_grid, plain_axis, title_panel
from lexigraft.report.summarize import Frame, select

_Curve = Literal[
    "loss", "bits_per_byte", "english_bits_per_byte", "perplexity", "english_perplexity"
]
# Rows of panels: the event of the log, the label of the axis, and the text of the caption.
ROWS = {
    "loss": ("step", "training loss, nats per token",
             "training loss of the next token, for encoders of masked tokens (that of the first "
             "step, then a running mean; per token, so not comparable across vocabularies)"),
    "bits_per_byte": ("heldout", "held-out bits per byte",
                      "bits per byte of the held-out sentences scored during training"),
    "english_bits_per_byte": ("heldout", "English bits per byte",
                              "bits per byte of English sentences, to show forgetting"),
    "perplexity": ("heldout", "held-out perplexity",
                   "perplexity of the held-out sentences scored during training, for encoders of "
                   "masked tokens (not comparable across vocabularies)"),
    "english_perplexity": ("heldout", "English perplexity",
                           "perplexity of English sentences, to show forgetting"),
}  # fmt: skip
DEFAULT = ("loss",)
_MOST_COLUMNS = 2


class CurveOptions(Options):
    """The options of a figure of training."""

    metrics: tuple[_Curve, ...] = ()
    over: Annotated[
        Literal["steps", "tokens"], Field(description="horizontal axis: `steps` or `tokens`")
    ] = "steps"


def _caption(item: Item) -> str:
    parts = [what for name, (*_, what) in ROWS.items() if name in (item.metrics or DEFAULT)]
    return (
        "Training curves: a line per initializer, or per strategy if the item names several. "
        f"Shown: {'; '.join(parts)}. Lines are means over {{seeds}}, faint lines single seeds."
    )


KIND = Kind(
    title="Training curves",
    caption=_caption,
    empty="no trained cell has a training log",
    options=CurveOptions,
)


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """Panels per source and language: training loss above held-out bits per byte, by default.

    A number that no model has gets no panel, such as bits per byte of encoders.

    A line is a trained model (see `lines`); its loss is smoothed, except at the first step.
    """
    curves = of_next_tokens(study.curves)
    shown = [name for name in study.item.metrics or DEFAULT if name in curves]
    drawn = lines(study, look)
    trained = curves[curves["event"] == "step"]
    keys = [
        (source, language)
        for source in study.order("source")
        for language in study.order("language")
        if len(select(trained, source=source, language=language))
    ]
    if not keys or not drawn or not shown:
        return None
    figure, panels = panel_grid(len(keys), _MOST_COLUMNS, 2.2, len(shown))
    over = scale(trained, "tokens" if study.item.option("over") == "tokens" else "step")
    watched = sentences_scored(study, [line.model for line in drawn])
    ends: list[tuple[Axes, list[End]]] = []
    for (source, language), axes in zip(keys, panels, strict=True):
        own = select(curves, source=source, language=language)
        mine = [line for line in drawn if line.model.source == source]
        for axis, name in zip(axes, shown, strict=True):
            ends.append((axis, _panel(axis, own, mine, name, over)))
            event, label, _ = ROWS[name]
            axis.set_ylabel(f"{label}\n({watched})" if watched and event == "heldout" else label)
            plain_axis(axis, "y")
            axis.tick_params(axis="x", length=2.5)
            axis.locator_params(axis="x", nbins=6)
        title_panel(axes[0], study.place(source, language))
        axes[-1].set_xlabel(over.label)
    name_ends(figure, ends)
    return figure


def _panel(axis: Axes, curves: Frame, drawn: list[Line], name: str, over: Scale) -> list[End]:
    """Draw the lines of one panel; returns their ends."""
    event = ROWS[name][0]
    curves = select(curves, event=event)
    ends: list[End] = []
    for model, label, style in drawn:
        own = select(curves, **model.keys())
        if end := draw_curve(axis, own, name, over, style, smooth=event == "step"):
            ends.append((*end, label, style["color"]))
    return ends
