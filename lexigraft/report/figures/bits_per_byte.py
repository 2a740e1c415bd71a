"""Bits per byte before and after training, per initializer."""

from itertools import product
from typing import NamedTuple

from lexigraft.report.before_after import METRIC, before_after, text_name, text_tasks
from lexigraft.report.curves import sentences_scored, source_level
from lexigraft.report.items import Kind
from lexigraft.report.models import Model, find, models, models_of, source_model, stub, stub_names
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
    "Comparable across vocabularies. Filled: after training ({strategy}); hollow: before, where "
    "the untrained cell was evaluated on the same text. Right: the best results after training, "
    "enlarged, with a dot per seed, the mean and, with two or more seeds, a bar of one standard "
    "deviation; an arrow marks a result outside the axis. Dotted line: the source model.",
    rank=1,
    empty="no trained cell has bits per byte",
)
_ENLARGED = 2.0  # minimum enlargement relative to the left panel


class _Panel(NamedTuple):
    """One source model and language: its trained models in order with their changes by seed.

    `untouched` is the source model's score, which is shown in the first row; for `measured_on`, see
    `before_after`.
    """

    title: str
    changes: "dict[Model, Frame]"
    untouched: float | None
    measured_on: str


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """A row of panels per language: before → after, and the enlarged end points."""
    panels = _panels(study)
    if not panels:
        return None
    heights = [len(panel.changes) + (panel.untouched is not None) for panel in panels]
    figure = new_figure(WIDTH, sum(0.6 + 0.23 * height for height in heights) + 0.2)
    axes = figure.subplots(len(panels), 2, squeeze=False, width_ratios=(1.25, 1),
                           height_ratios=heights)  # fmt: skip
    for (left, right), panel in zip(axes, panels, strict=True):
        _dumbbells(left, panel, look, study)
        _numbers(right, panel)
        left.set_title(panel.title)
        for axis in (left, right):
            axis.set_ylim(len(panel.changes) - 0.5, -0.5 if panel.untouched is None else -1.5)
            plain_axis(axis)
    both = any(own["before"].notna().any() for panel in panels for own in panel.changes.values())
    label = " of ".join(filter(None, ["bits per byte", text_name(study)]))
    label += ", before (hollow) → after training (filled)" if both else ""
    if any(panel.measured_on == "log" for panel in panels):
        watched = sentences_scored(study, [model for panel in panels for model in panel.changes])
        label += f"\n(from training logs: {watched} scored during training)"
    axes[-1][0].set_xlabel(label)
    axes[-1][1].set_xlabel("after training, enlarged; lower is better")
    figure.draw_without_rendering()
    for (left, right), panel in zip(axes, panels, strict=True):
        _enlarge(left, right, panel)
        _end_points(right, panel, look)
    return figure


def _panels(study: StudyResults) -> list[_Panel]:
    every = before_after(study)
    trained = [model for model in models(study) if model.strategy != "none"]
    found = []
    for source, language in product(study.order("source"), study.order("language")):
        here = select(every, source=source, language=language)
        changes = {model: select(here, **model.keys()) for model in trained}
        ends = {model: own["after"].mean() for model, own in changes.items()}
        # Baselines first, then from best to worst.
        shown = sorted((model for model, end in ends.items() if end == end),
                       key=lambda model: (not model.baseline, ends[model]))  # fmt: skip
        if shown:
            untouched = _untouched(study, here, source, language)
            own = {model: changes[model] for model in shown}
            measured_on = str(here["measured_on"].iloc[0])
            found.append(_Panel(study.place(source, language), own, untouched, measured_on))
    return found


def _untouched(study: StudyResults, changes: Frame, source: str, language: str) -> float | None:
    """Bits per byte of the source model, on the text that the changes were measured on."""
    if (changes["measured_on"] == "log").all():
        trained = models_of(changes)
        return source_level(study, trained, source, language, METRIC)
    task = text_tasks(study).get(language, "")
    row = find(study, source_model(source), language, task, METRIC)
    return float(row["mean"]) if row is not None else None


def _dumbbells(axis: Axes, panel: _Panel, look: Look, study: StudyResults) -> None:
    names = tuple(name for name in stub_names(study) if name != "Source model")
    for y, (model, own) in enumerate(panel.changes.items()):
        before, after = own["before"].mean(), own["after"].mean()
        colour, marker, _ = look.of(model.initializer)
        # Without a score before training, matplotlib draws neither the line nor the hollow mark.
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


def _numbers(axis: Axes, panel: _Panel) -> None:
    """Write the numbers to the right of a panel."""
    texts = {} if panel.untouched is None else {-1: number(panel.untouched, 3)}
    for y, changes in enumerate(panel.changes.values()):
        own = changes["after"]
        texts[y] = number(own.mean(), 3)
        texts[y] += f" ± {number(own.std(ddof=1), 3)}" if len(own) > 1 else ""
    for y, text in texts.items():
        axis.annotate(text, (1, y), (10, 0), xycoords=axis.get_yaxis_transform(),
                      textcoords="offset points", va="center", fontsize=7.5, color=INK)  # fmt: skip
    axis.set_yticks([])
    axis.spines["left"].set_color(RULE)


def _enlarge(left: Axes, right: Axes, panel: _Panel) -> None:
    """Set the limits of the right panel to enlarge the best end points."""
    ends = [changes["after"] for changes in panel.changes.values()]
    low, high = left.get_xlim()
    widths = [axis.get_window_extent().width for axis in (left, right)]
    widest = (high - low) * widths[1] / widths[0] / _ENLARGED
    first = min(seeds.min() for seeds in ends)
    room = widest / 1.16
    shown = [seeds.max() - first for seeds in ends if seeds.mean() - first <= room]
    # A single end point gets the whole width.
    span = max(min(max(shown), room), 0.01) if len(shown) > 1 else room
    right.set_xlim(first - 0.08 * span, first + 1.08 * span)
    right.locator_params(axis="x", nbins=4)


def _end_points(axis: Axes, panel: _Panel, look: Look) -> None:
    low, high = axis.get_xlim()
    points = [(y, own["after"], *look.of(model.initializer)[:2])
              for y, (model, own) in enumerate(panel.changes.items())]  # fmt: skip
    if panel.untouched is not None and low <= panel.untouched <= high:
        axis.axvline(panel.untouched, color=MUTED, lw=1, ls=":", zorder=1)
    for y, own, colour, marker in points:
        mean = own.mean()
        if mean > high:
            axis.plot(1, y, ">", color=colour, ms=4.5, transform=axis.get_yaxis_transform(),
                      clip_on=False)  # fmt: skip
            continue
        if len(own) > 1:
            axis.errorbar(mean, y, xerr=own.std(ddof=1), color=colour, lw=1.2, capsize=2.5,
                          zorder=2)  # fmt: skip
            axis.plot(own, [y + 0.32] * len(own), "o", color=colour, ms=2.6, mew=0, zorder=3)
        axis.plot(mean, y, marker, color=colour, ms=5.5, zorder=4)
    axis.set_xlim(low, high)
