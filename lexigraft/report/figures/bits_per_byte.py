"""Bits per byte before and after training, per initializer."""

from itertools import product
from typing import TYPE_CHECKING

from pandas import DataFrame

from lexigraft.report.drawing import (
    MUTED,
    PAPER,
    RULE,
    WIDTH,
    Look,
    new_figure,
    plain_axis,
    write_beside,
)
from lexigraft.report.frame import Model, StudyResults, models_of, select, source_model
from lexigraft.report.heldout import (
    BITS_PER_BYTE,
    before_after,
    sentences_scored,
    source_level,
    text_name,
    text_tasks,
)
from lexigraft.report.items import figure
from lexigraft.report.models import models, stub, stub_names
from lexigraft.report.rendering import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ENLARGED = 0.4  # share of the range of the left panel that the right panel shows at most


@figure(
    title="Bits per byte (lower is better)",
    caption="Bits per byte of held-out text before and after training, per initializer. "
    "Comparable across vocabularies. Filled: after training ({strategy}); hollow: before, where "
    "the untrained cell was evaluated on the same text. Right: the best results after training, "
    "enlarged, with a dot per seed; results outside the axis only have their number. Dotted line: "
    "the source model.",
    empty="no trained cell has bits per byte",
    rank=1,
)
def bits_per_byte(study: StudyResults, look: Look) -> "Figure | None":
    """A row of panels per language: before → after, and the enlarged end points."""
    every = before_after(study)
    trained = [model for model in models(study) if model.strategy != "none"]
    panels: list[tuple[str, dict[Model, DataFrame], float | None]] = []
    for source, language in product(study.order("source"), study.order("language")):
        here = select(every, source=source, language=language)
        changes = {model: select(here, **model.axes()) for model in trained}
        means = {model: rows["after"].mean() for model, rows in changes.items() if len(rows)}
        # Baselines first, then from best to worst.
        order = sorted(means, key=lambda model: (not model.baseline, means[model]))
        if order:
            level = _source_level(study, here, source, language)
            shown = {model: changes[model] for model in order}
            panels.append((study.panel_title(source, language), shown, level))
    if not panels:
        return None
    heights = [len(changes) + 1 for _, changes, _ in panels]
    drawn = new_figure(WIDTH, sum(0.6 + 0.23 * height for height in heights) + 0.2)
    axes = drawn.subplots(len(panels), 2, squeeze=False, width_ratios=(1.25, 1),
                          height_ratios=heights)  # fmt: skip
    names = tuple(name for name in stub_names(study) if name != "Source model")
    for (left, right), (title, changes, level) in zip(axes, panels, strict=True):
        labels = [" · ".join(stub(model, names)) for model in changes]
        _draw_changes(left, right, changes, level, look)
        left.set_title(title)
        left.set_yticks(range(-1 if level is not None else 0, len(labels)),
                        (["Source"] if level is not None else []) + labels)  # fmt: skip
        right.set_yticks([])
        right.spines["left"].set_color(RULE)
        for axis in (left, right):
            axis.set_ylim(len(labels) - 0.5, -0.5 if level is None else -1.5)
            plain_axis(axis)
    label = " of ".join(filter(None, ["bits per byte", text_name(study)]))
    if any(rows["before"].notna().any() for _, changes, _ in panels for rows in changes.values()):
        label += ", before (hollow) → after training (filled)"
    if (every["measured_on"] == "log").any():
        scored = sentences_scored(study, trained)
        label += f"\n(from training logs: {scored} scored during training)"
    axes[-1][0].set_xlabel(label)
    axes[-1][1].set_xlabel("after training, enlarged; lower is better")
    return drawn


def _source_level(
    study: StudyResults, changes: DataFrame, source: str, language: str
) -> float | None:
    """Bits per byte of the source model, on the text that the changes were measured on."""
    if (changes["measured_on"] == "log").all():
        return source_level(study, models_of(changes), source, language, BITS_PER_BYTE)
    task = text_tasks(study).get(language, "")
    row = study.find(source_model(source), language, task, BITS_PER_BYTE)
    return float(row["mean"]) if row is not None else None


def _draw_changes(
    left: "Axes",
    right: "Axes",
    changes: dict[Model, DataFrame],
    level: float | None,
    look: Look,
) -> None:
    """Draw a line from before to after on the left, and the seeds after training on the right."""
    for y, (model, rows) in enumerate(changes.items()):
        style = look.style(model.initializer) | {"ls": ""}
        before, after = rows["before"].mean(), rows["after"].mean()
        # Without a score before training, matplotlib draws neither the line nor the hollow mark.
        left.plot([before, after], [y, y], color=style["color"], lw=1.6, alpha=0.55, zorder=2)
        left.plot(before, y, **style, mfc=PAPER, mew=1.2, ms=6, zorder=3)
        left.plot(after, y, **style, ms=6, zorder=4)
        text = number(after, 3)
        if len(rows) > 1:
            text += f" ± {number(rows['after'].std(ddof=1), 3)}"
            right.plot(rows["after"], [y + 0.32] * len(rows), "o", color=style["color"], ms=2.6,
                       mew=0)  # fmt: skip
        right.plot(after, y, **style, ms=5.5)
        write_beside(right, y, text)
    if level is not None:
        for axis in (left, right):
            axis.axvline(level, color=MUTED, lw=1, ls=":", zorder=1)
        left.plot(level, -1, "*", color=MUTED, ms=6)
        write_beside(right, -1, number(level, 3))
    low, high = left.get_xlim()
    ends = [rows["after"] for rows in changes.values()]
    first = min(seeds.min() for seeds in ends)
    reach = _ENLARGED * (high - low)
    inside = [seeds.max() for seeds in ends if seeds.max() <= first + reach]
    span = max(inside, default=first) - first or reach
    right.set_xlim(first - 0.1 * span, first + 1.1 * span)
    right.locator_params(axis="x", nbins=4)
