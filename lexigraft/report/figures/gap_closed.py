"""How much of the gap from random rows to the source model each initializer closes."""

import math
from collections.abc import Mapping
from typing import Any

from lexigraft.report.items import Kind
from lexigraft.report.names import initializer_name, task_name
from lexigraft.report.starting_points import NOTHING, Gap, Standing, StartingPointOptions, gaps
from lexigraft.report.study import StudyResults
from lexigraft.report.style import (
    INK,
    MUTED,
    WIDTH,
    Axes,
    Figure,
    Look,
    add_legend,
    new_figure,
    plain_axis,
    series_style,
    title_panel,
)
from lexigraft.report.table import number

KIND = Kind(
    title="Share of the gap closed before any training (higher is better)",
    caption="Share of the gap that each initializer closes before any training: from the graft "
    "with random rows (0 %) to the source model (100 %), in bits per byte of the same text. Small "
    "marks: languages; black: the mean with its 95 % interval, over languages and the sentences of "
    "each. An arrow marks a value outside the axis.",
    empty=NOTHING,
    options=StartingPointOptions,
    rank=2,
)
_ROW, _MARGIN = 0.2, 1.0  # inches
_LOWEST = -50.0  # percent: initializers below this are shown as arrows


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """A row of panels per source model, one for each vocabulary and task, with shared rows."""
    panels = {key: gap for key, gap in gaps(study).items() if gap.languages}
    if not panels:
        return None
    rows: dict[str, list[tuple[str, Gap]]] = {}  # source model -> titles and panels
    for key, gap in panels.items():
        rows.setdefault(key[0], []).append((_title(study, *key), gap))
    orders = [_order([gap for _, gap in own]) for own in rows.values()]
    heights = [_ROW * len(names) + 0.6 for names in orders]
    figure = new_figure(WIDTH, sum(heights) + _MARGIN)
    columns = max(map(len, rows.values()))
    axes = figure.subplots(len(rows), columns, squeeze=False, height_ratios=heights)
    shown = {language for gap in panels.values() for language in gap.languages}
    languages = [name for name in study.order("language") if name in shown]
    styles = {language: series_style(at) for at, language in enumerate(languages)}
    for own, names, line in zip(rows.values(), orders, axes, strict=True):
        for axis in line[len(own) :]:
            axis.remove()
        limits = _limits([gap for _, gap in own])
        for axis, (title, gap) in zip(line, own, strict=False):
            _draw_panel(axis, gap, names, styles, limits)
            title_panel(axis, title)
        line[0].set_yticks(range(len(names)), map(initializer_name, names))
    mean = {"color": INK, "marker": "|", "ms": 8, "mew": 1.8, "lw": 1.4}
    marks = {study.language(name): {"ls": "", "ms": 4, "mew": 0, **style}
             for name, style in styles.items()}  # fmt: skip
    add_legend(figure, {**marks, "mean, 95 % interval": mean})
    floor = initializer_name(study.item.option("floor"))
    figure.supxlabel(f"share of the gap closed (%): {floor} is 0, the source model 100", fontsize=8)
    return figure


def _title(study: StudyResults, source: str, vocabulary: str, task: str) -> str:
    """The title of a panel: what distinguishes it from the others."""
    tasks = {other for *_, other in gaps(study)}
    several = {
        source: study.has_several_sources,
        vocabulary: len(study.new_vocabularies) > 1,
        task_name(task, study.kind(task)): len(tasks) > 1,
    }
    return ", ".join(name for name, named in several.items() if named) or study.title


def _order(panels: list[Gap]) -> list[str]:
    """The initializers, sorted by their mean in the first panel, highest first."""
    shares = {model.initializer: mean.share for model, mean in panels[0].means.items()}
    names = dict.fromkeys(model.initializer for gap in panels
                          for model, own in gap.shares.items()
                          if own and not model.baseline)  # fmt: skip
    return sorted(names, key=lambda name: -shares.get(name, -math.inf))


def _limits(panels: list[Gap]) -> tuple[float, float]:
    """Limits of the axis in percent, shared by all panels of a source model."""
    values = [100 * own[language].share for gap in panels for own in gap.shares.values()
              for language in gap.languages if language in own]  # fmt: skip
    ends = [100 * mean.high for gap in panels for mean in gap.means.values()]
    low, high = max(min(values), _LOWEST), max(*values, *filter(math.isfinite, ends), 100.0)
    return min(low, 0.0) - 4, high + 4


def _draw_panel(
    axis: Axes,
    gap: Gap,
    names: list[str],
    styles: Mapping[str, Mapping[str, Any]],
    limits: tuple[float, float],
) -> None:
    for level in (0, 100):
        axis.axvline(level, color=MUTED, lw=0.8, ls=":", zorder=1)
    every = {model.initializer: (own, gap.means.get(model)) for model, own in gap.shares.items()}
    for y, name in enumerate(names):
        shares, mean = every.get(name, ({}, None))
        for language in gap.languages:
            if language in shares:
                _mark(axis, 100 * shares[language].share, y, limits, ms=3.4, mew=0, zorder=3.5,
                      **styles[language])  # fmt: skip
        if mean is not None:
            _mean(axis, mean, y, limits)
    axis.set_xlim(*limits)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_yticks([])
    plain_axis(axis)


def _mark(axis: Axes, x: float, y: int, limits: tuple[float, float], **style: Any) -> None:
    """Draw a mark, or an arrow at the edge if it is outside the limits."""
    if x < limits[0]:
        axis.plot(0, y, transform=axis.get_yaxis_transform(), clip_on=False,
                  **{**style, "marker": "<"})  # fmt: skip
    else:
        axis.plot(x, y, ls="", **style)


def _mean(axis: Axes, mean: Standing, y: int, limits: tuple[float, float]) -> None:
    """Draw the mean and its interval, and write its number at the right end."""
    low, high = (max(100 * end, limits[0]) for end in (mean.low, mean.high))
    if math.isfinite(low) and high > limits[0]:
        axis.plot([low, high], [y, y], color=INK, lw=1.4, zorder=3, solid_capstyle="butt")
    _mark(axis, 100 * mean.share, y, limits, color=INK, marker="|", ms=8, mew=1.8, zorder=4)
    axis.annotate(number(100 * mean.share, 0), (1, y), (3, 0), va="center", fontsize=7, color=INK,
                  xycoords=axis.get_yaxis_transform(), textcoords="offset points")  # fmt: skip
