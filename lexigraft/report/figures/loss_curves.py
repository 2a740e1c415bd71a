"""Training loss and held-out bits per byte or perplexity, by step or by token."""

from typing import Annotated, Literal

from pydantic import Field

from lexigraft.report.curves import End, Line, lines, name_ends, of_next_tokens
from lexigraft.report.items import Item, Kind, Options
from lexigraft.report.study import StudyResults
from lexigraft.report.style import Axes, Figure, Look, panel_grid, plain_axis, title_panel
from lexigraft.report.summarize import Frame, select

_Curve = Literal[
    "loss", "bits_per_byte", "english_bits_per_byte", "perplexity", "english_perplexity"
]
# Rows of panels: the event of the log, the name of the axis, and what the caption says.
ROWS = {
    "loss": ("step", "training loss, nats per token",
             "training loss of the next token, an encoder's of masked tokens (the first step's, "
             "then a running mean; per token: not comparable between vocabularies)"),
    "bits_per_byte": ("heldout", "held-out bits per byte",
                      "bits per byte of the held-out sentences watched during training"),
    "english_bits_per_byte": ("heldout", "English bits per byte",
                              "the same of English sentences, for what is forgotten"),
    "perplexity": ("heldout", "held-out perplexity",
                   "perplexity of the held-out sentences watched during training, an encoder's of "
                   "masked tokens (not comparable between vocabularies)"),
    "english_perplexity": ("heldout", "English perplexity",
                           "the perplexity of English sentences, for what is forgotten"),
}  # fmt: skip
DEFAULT = ("loss", "bits_per_byte")
# Points of the running mean over the steps; one step's loss says little.
_SMOOTHED_TO = 25
_MOST_COLUMNS = 3
# Tokens of the longest training, how many of them are one on the axis, and what the axis says.
_UNITS = (
    (1e4, 1, "training tokens"),
    (1e7, 1e3, "training tokens, in thousands"),
    (1e10, 1e6, "training tokens, in millions"),
    (float("inf"), 1e9, "training tokens, in billions"),
)


class CurveOptions(Options):
    """The options of a figure of training."""

    metrics: tuple[_Curve, ...] = ()
    over: Annotated[Literal["steps", "tokens"], Field(description="`steps` or `tokens`")] = "steps"


def _caption(item: Item) -> str:
    parts = [what for name, (*_, what) in ROWS.items() if name in (item.metrics or DEFAULT)]
    return (
        "The course of training, a line per initializer, or per strategy where the item names "
        f"several. Shown: {'; '.join(parts)}. Lines are means over {{seeds}}, faint lines single "
        "seeds."
    )


KIND = Kind(
    title="Training curves",
    caption=_caption,
    empty="no cell was trained with a log",
    options=CurveOptions,
)


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """Panels of each source and language: training loss over held-out bits per byte, or as asked.

    What no model has, as encoders have no bits per byte, gets no panel.

    A line is a trained model (see `lines`); its loss is smoothed, but for the first step's.
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
    unit, across = 0.0, "training step"
    if study.item.option("over") == "tokens":
        most = trained["tokens"].max()
        unit, across = next((unit, name) for bound, unit, name in _UNITS if most < bound)
    ends: list[tuple[Axes, list[End]]] = []
    for (source, language), axes in zip(keys, panels, strict=True):
        own = select(curves, source=source, language=language)
        mine = [line for line in drawn if line.model.source == source]
        for axis, name in zip(axes, shown, strict=True):
            ends.append((axis, _panel(axis, own, mine, name, unit)))
            axis.set_ylabel(ROWS[name][1])
            plain_axis(axis, "y")
            axis.tick_params(axis="x", length=2.5)
            axis.locator_params(axis="x", nbins=6)
        title_panel(axes[0], study.place(source, language))
        axes[-1].set_xlabel(across)
    name_ends(figure, ends)
    return figure


def _panel(axis: Axes, curves: Frame, drawn: list[Line], name: str, unit: float) -> list[End]:
    """Draw the lines of one panel over steps, or over so many tokens; returns their ends."""
    ends: list[End] = []
    smooth = ROWS[name][0] == "step"
    curves = curves[(curves["event"] == ROWS[name][0]) & curves[name].notna()]
    for model, label, style in drawn:
        own = select(curves, **model.keys())
        if own.empty:
            continue
        by_seed = own.pivot_table(index="step", columns="seed", values=name)
        if smooth:
            # The first step's loss, before any update, stays what it is.
            window = max(1, len(by_seed) // _SMOOTHED_TO)
            by_seed = by_seed.rolling(window, min_periods=1).mean()
        at = by_seed.index.to_numpy()
        if unit:
            at = own.groupby("step")["tokens"].mean().to_numpy() / unit
        if by_seed.shape[1] > 1:
            for seed in by_seed:
                axis.plot(at, by_seed[seed], color=style["color"], lw=0.6, alpha=0.35)
        mean = by_seed.mean(axis=1)
        axis.plot(at, mean, ms=4, **style | ({"marker": None} if smooth else {}))
        ends.append((float(at[-1]), float(mean.iloc[-1]), label, style["color"]))
    return ends
