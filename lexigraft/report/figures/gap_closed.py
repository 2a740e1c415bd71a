"""How much of the gap from random rows to the source model each initializer closes."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lexigraft.report.drawing import (
    INK,
    MUTED,
    WIDTH,
    Look,
    add_legend,
    new_figure,
    plain_axis,
    series_style,
    title_panel,
    write_beside,
)
from lexigraft.report.frame import StudyResults
from lexigraft.report.gaps import NOTHING, Gap, GapOptions, gaps
from lexigraft.report.items import figure
from lexigraft.report.names import initializer_name, task_name
from lexigraft.report.rendering import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOWEST = -50.0  # percent: lower values are shown as arrows


@figure(
    title="Share of the gap closed before any training (higher is better)",
    caption="Share of the gap that each initializer closes before any training: from the graft "
    "with random rows (0 %) to the source model (100 %), in bits per byte of the same text. Small "
    "marks: languages; black: the mean with its 95 % interval, over languages and the sentences of "
    "each. An arrow marks a value outside the axis.",
    empty=NOTHING,
    options=GapOptions,
    rank=2,
)
def gap_closed(study: StudyResults, look: Look) -> "Figure | None":
    """A row of panels per source model, one for each vocabulary and task, with shared rows."""
    panels = {key: gap for key, gap in gaps(study).items() if gap.languages}
    if not panels:
        return None
    by_source: dict[str, dict[str, Gap]] = {}  # source model -> titles and panels
    for (source, vocabulary, task), gap in panels.items():
        parts = {
            source: study.has_several_sources,
            vocabulary: len(study.new_vocabularies) > 1,
            task_name(task, study.task_kind(task)): len({key[2] for key in panels}) > 1,
        }
        title = ", ".join(name for name, several in parts.items() if several) or study.title
        by_source.setdefault(source, {})[title] = gap
    orders = [_order([*row.values()]) for row in by_source.values()]
    heights = [0.2 * len(names) + 0.6 for names in orders]
    drawn = new_figure(WIDTH, sum(heights) + 0.6)
    columns = max(map(len, by_source.values()))
    axes = drawn.subplots(len(by_source), columns, squeeze=False, height_ratios=heights)
    measured = {language for gap in panels.values() for language in gap.languages}
    languages = [name for name in study.order("language") if name in measured]
    styles: dict[str, dict[str, Any]] = {
        language: series_style(place) | {"ls": "", "ms": 3.4, "mew": 0}
        for place, language in enumerate(languages)
    }
    for row, names, line in zip(by_source.values(), orders, axes, strict=True):
        for axis in line[len(row) :]:
            axis.remove()
        limits = _limits([*row.values()])
        for axis, (title, gap) in zip(line, row.items(), strict=False):
            _draw_panel(axis, gap, names, styles, limits)
            title_panel(axis, title)
        line[0].set_yticks(range(len(names)), map(initializer_name, names))
    mean = {"color": INK, "marker": "|", "ms": 8, "mew": 1.8, "lw": 1.4}
    add_legend(
        drawn,
        {study.language(name): style for name, style in styles.items()}
        | {"mean, 95 % interval": mean},
    )
    floor = initializer_name(study.item.option("floor"))
    drawn.supxlabel(f"share of the gap closed (%): {floor} is 0, the source model 100", fontsize=8)
    return drawn


def _order(panels: list[Gap]) -> list[str]:
    """The initializers, sorted by their mean in the first panel, highest first."""
    shares = {model.initializer: mean.share for model, mean in panels[0].means.items()}
    results = (item for gap in panels for item in gap.shares.items())
    names = dict.fromkeys(
        model.initializer for model, by_language in results if by_language and not model.baseline
    )
    return sorted(names, key=lambda name: -shares.get(name, -math.inf))


def _limits(panels: list[Gap]) -> tuple[float, float]:
    """Limits of the axis in percent, shared by all panels of a source model."""
    values = [
        100 * by_language[language].share
        for gap in panels
        for by_language in gap.shares.values()
        for language in gap.languages
        if language in by_language
    ]
    ends = [100 * mean.high for gap in panels for mean in gap.means.values()]
    low, high = max(min(values), _LOWEST), max(*values, *filter(math.isfinite, ends), 100.0)
    return min(low, 0.0) - 4, high + 4


def _draw_panel(
    axis: "Axes",
    gap: Gap,
    names: list[str],
    styles: Mapping[str, Mapping[str, Any]],
    limits: tuple[float, float],
) -> None:
    def mark(share: float, y: int, **style: Any) -> None:
        outside = 100 * share < limits[0]
        x = limits[0] if outside else 100 * share
        axis.plot(x, y, **{**style, **({"marker": "<", "clip_on": False} if outside else {})})

    for level in (0, 100):
        axis.axvline(level, color=MUTED, lw=0.8, ls=":", zorder=1)
    results = {model.initializer: (gap.shares[model], gap.means.get(model)) for model in gap.shares}
    for y, name in enumerate(names):
        by_language, mean = results.get(name, ({}, None))
        for language in gap.languages:
            if language in by_language:
                mark(by_language[language].share, y, zorder=3.5, **styles[language])
        if mean is not None:
            low, high = (max(100 * end, limits[0]) for end in (mean.low, mean.high))
            if math.isfinite(low) and high > limits[0]:
                axis.plot([low, high], [y, y], color=INK, lw=1.4, zorder=3, solid_capstyle="butt")
            mark(mean.share, y, color=INK, marker="|", ms=8, mew=1.8, zorder=4)
            write_beside(axis, y, number(100 * mean.share, 0))
    axis.set_xlim(*limits)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_yticks([])
    plain_axis(axis)
