"""Bits per byte before and after training, per initializer."""

from itertools import product
from typing import NamedTuple

from lexigraft.report.before_after import METRIC, before_after, log_ends
from lexigraft.report.items import Kind
from lexigraft.report.models import Model, find, models, stub, stub_names
from lexigraft.report.study import StudyResults
from lexigraft.report.style import (
    INK,
    MUTED,
    PAPER,
    RULE,
    WIDTH,
    Axes,
    Figure,
    Look,
    new_figure,
    plain_axis,
)
from lexigraft.report.summarize import Frame, select
from lexigraft.report.table import number

KIND = Kind(
    title="Bits per byte (lower is better)",
    caption="Bits per byte of held-out text before and after training, per initializer. "
    "Comparable across vocabularies. Hollow: the model with its new rows and no training; filled: "
    "after training ({strategy}). Right: the end points enlarged, a dot per seed, the mean and, "
    "from two seeds on, a bar of one standard deviation. Dotted line: the source model.",
    rank=1,
    empty="no cell has bits per byte before and after training",
)


class _Panel(NamedTuple):
    """One source model and language: its trained models in order with their changes by seed.

    `ends` are the lowest and the highest score after training, `untouched` is the source model's,
    which has a row above the others.
    """

    title: str
    changes: "dict[Model, Frame]"
    ends: tuple[float, float]
    untouched: float | None


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """A row of panels per language: before → after, and the end points alone, enlarged."""
    panels = _panels(study)
    if not panels:
        return None
    heights = [len(panel.changes) + (panel.untouched is not None) for panel in panels]
    figure = new_figure(WIDTH, sum(0.6 + 0.23 * height for height in heights) + 0.2)
    axes = figure.subplots(len(panels), 2, squeeze=False, width_ratios=(1.25, 1),
                           height_ratios=heights)  # fmt: skip
    for (left, right), panel in zip(axes, panels, strict=True):
        _dumbbells(left, panel, look, study)
        _end_points(right, panel, look)
        left.set_title(panel.title)
        for axis in (left, right):
            axis.set_ylim(len(panel.changes) - 0.5, -0.5 if panel.untouched is None else -1.5)
            plain_axis(axis)
    axes[-1][0].set_xlabel("bits per byte, before (hollow) → after training (filled)")
    axes[-1][1].set_xlabel("after training, enlarged; lower is better")
    return figure


def _panels(study: StudyResults) -> list[_Panel]:
    every = before_after(study)
    trained = [model for model in models(study) if model.strategy != "none"]
    found = []
    for source, language in product(study.order("source"), study.order("language")):
        here = select(every, source=source, language=language)
        changes = {model: select(here, **model.keys()) for model in trained}
        ends = {model: own["after"].mean() for model, own in changes.items()}
        # Baselines first, then from the best to the worst.
        shown = sorted((model for model, end in ends.items() if end == end),
                       key=lambda model: (not model.baseline, ends[model]))  # fmt: skip
        if shown:
            untouched = _untouched(study, here, source, language)
            own, after = {model: changes[model] for model in shown}, here["after"]
            title, span = study.place(source, language), (after.min(), after.max())
            found.append(_Panel(title, own, span, untouched))
    return found


def _untouched(study: StudyResults, changes: Frame, source: str, language: str) -> float | None:
    """Bits per byte of the source model, on the text that the changes were measured on."""
    if (changes["measured_on"] == "log").all():
        # Training the source with its own vocabulary starts from the source itself, too.
        logged = [before for key, (before, _) in log_ends(study.curves).items()
                  if key[:4] == (source, language, "source", "none")]  # fmt: skip
        return logged[0] if logged else None
    found = select(study.summary, metric=METRIC, language=language)
    row = find(found, Model(source, "source", "none", "none"))
    return float(row["mean"]) if row is not None else None


def _dumbbells(axis: Axes, panel: _Panel, look: Look, study: StudyResults) -> None:
    names = tuple(name for name in stub_names(study) if name != "Source model")
    for y, (model, own) in enumerate(panel.changes.items()):
        before, after = own["before"].mean(), own["after"].mean()
        colour, marker, _ = look.of(model.initializer)
        axis.plot([before, after], [y, y], color=colour, lw=1.6, alpha=0.55, zorder=2)
        axis.plot(before, y, marker, mfc=PAPER, mec=colour, mew=1.2, ms=6, zorder=3)
        axis.plot(after, y, marker, color=colour, ms=6, zorder=4)
    places = list(range(len(panel.changes)))
    labels = [" · ".join(stub(model, names)) for model in panel.changes]
    if panel.untouched is not None:
        axis.plot([panel.untouched] * 2, [-1, len(places) - 0.5], color=MUTED, lw=1, ls=":",
                  zorder=1)  # fmt: skip
        axis.plot(panel.untouched, -1, "*", color=MUTED, ms=6)
        places, labels = [-1, *places], ["Source", *labels]
    axis.set_yticks(places, labels)


def _end_points(axis: Axes, panel: _Panel, look: Look) -> None:
    texts = {} if panel.untouched is None else {-1: number(panel.untouched, 3)}
    for y, (model, changes) in enumerate(panel.changes.items()):
        own = changes["after"]
        colour, marker, _ = look.of(model.initializer)
        texts[y] = number(own.mean(), 3)
        if len(own) > 1:
            spread = own.std(ddof=1)
            axis.errorbar(own.mean(), y, xerr=spread, color=colour, lw=1.2, capsize=2.5, zorder=2)
            axis.plot(own, [y + 0.32] * len(own), "o", color=colour, ms=2.6, mew=0, zorder=3)
            texts[y] += f" ± {number(spread, 3)}"
        axis.plot(own.mean(), y, marker, color=colour, ms=5.5, zorder=4)
    for y, text in texts.items():
        axis.annotate(text, (1, y), xycoords=axis.get_yaxis_transform(), ha="right", va="center",
                      fontsize=7.5, color=INK)  # fmt: skip
    axis.set_yticks([])
    low, high = panel.ends
    width = max(high - low, 0.01)
    # The right part of the panel holds the numbers.
    axis.set_xlim(low - 0.12 * width, high + 0.85 * width)
    axis.set_xticks([tick for tick in axis.get_xticks() if low - 0.1 * width <= tick <= high])
    axis.spines["left"].set_color(RULE)
