"""Training loss and held-out bits per byte or perplexity, by step or by token."""

from itertools import product
from typing import Annotated, Literal

from pydantic import Field

from lexigraft.report import drawing
from lexigraft.report.card_scores import next_token_losses
from lexigraft.report.drawing import Figure, Look
from lexigraft.report.frame import StudyResults, select
from lexigraft.report.heldout import sentences_scored
from lexigraft.report.items import Options, figure

_Curve = Literal[
    "loss", "bits_per_byte", "english_bits_per_byte", "perplexity", "english_perplexity"
]
# Rows of panels: the event of the log, and the label of the axis.
_ROWS = {
    "loss": ("step", "training loss, nats per token"),
    "bits_per_byte": ("heldout", "held-out bits per byte"),
    "english_bits_per_byte": ("heldout", "English bits per byte"),
    "perplexity": ("heldout", "held-out perplexity"),
    "english_perplexity": ("heldout", "English perplexity"),
}
_DEFAULT = ("loss",)


class CurveOptions(Options):
    """The options of a figure of training."""

    metrics: tuple[_Curve, ...] = ()
    over: Annotated[
        Literal["steps", "tokens"], Field(description="horizontal axis: `steps` or `tokens`")
    ] = "steps"


@figure(
    title="Training curves",
    caption="Training curves: a line per initializer, or per strategy if the item names several. "
    "Losses are of the next token, after the first step a running mean; losses and perplexities "
    "are not comparable across vocabularies. Lines are means over {seeds}, faint lines single "
    "seeds.",
    empty="no trained cell has a training log",
    options=CurveOptions,
)
def loss_curves(study: StudyResults, look: Look) -> Figure | None:
    """Panels per source and language: the training loss, or the item's metrics below each other.

    A number that no model has gets no panel, such as bits per byte of encoders. A line is a trained
    model; its loss is smoothed, except at the first step.
    """
    curves = next_token_losses(study.curves)
    names = [name for name in study.item.metrics or _DEFAULT if name in curves]
    lines = drawing.trained_lines(study, look)
    panels = {}
    for source, language in product(study.order("source"), study.order("language")):
        logged = select(curves, source=source, language=language)
        if (logged["event"] == "step").any():
            panels[study.panel_title(source, language)] = logged
    if not panels or not lines or not names:
        return None
    drawn, stacks = drawing.panel_grid([*panels], 2, 2.0, len(names))
    over = "tokens" if study.item.option("over") == "tokens" else "step"
    scored = sentences_scored(study, [*lines])
    for logged, axes in zip(panels.values(), stacks, strict=True):
        for axis, name in zip(axes, names, strict=True):
            event, label = _ROWS[name]
            lines_of_event = select(logged, event=event)
            drawing.draw_curves(axis, lines_of_event, name, over, lines, smooth=event == "step")
            on_text = f"\n({scored})" if scored and event == "heldout" else ""
            axis.set_ylabel(label + on_text)
        for axis in axes[:-1]:
            axis.set_xlabel("")
    drawing.add_legend(drawn)
    return drawn
