"""How much of the gap from random rows to the source model each initializer closes."""

import math
from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

from lexigraft.report.items import Kind
from lexigraft.report.models import Model
from lexigraft.report.names import initializer_name, task_name
from lexigraft.report.starting_points import (
    GapShare,
    Standing,
    StartingPointOptions,
    gap_shares,
    grafts,
    standings,
    tasks_shown,
    with_gap,
)
from lexigraft.report.study import StudyResults
from lexigraft.report.style import (
    COLOURS,
    INK,
    MARKERS,
    MUTED,
    WIDTH,
    Axes,
    Figure,
    Look,
    new_figure,
    plain_axis,
    title_panel,
)
from lexigraft.report.table import number

KIND = Kind(
    title="Share of the gap closed before any training (higher is better)",
    caption="Share of the gap that each initializer closes before any training: from the graft "
    "with random rows (0 %) to the source model (100 %), in bits per byte of the same text. A "
    "small mark for each language; black: the mean with its 95 % interval, over languages and the "
    "sentences of each. An arrow stands for what lies beyond the axis.",
    empty="no untrained graft was scored beside one with random rows and the source model",
    options=StartingPointOptions,
    rank=2,
)
_ROW, _MARGIN = 0.2, 1.0  # inches
_LOWEST = -50.0  # percent: what is worse than random rows by more is an arrow


class _Panel(NamedTuple):
    """One vocabulary and task: what its grafts close, by initializer."""

    title: str
    shares: dict[str, dict[str, GapShare]]
    means: dict[str, Standing]


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """A row of panels per source model, one for each vocabulary and task, with shared rows."""
    groups = grafts(study)
    rows = []
    for source in dict.fromkeys(source for source, _ in groups):
        own = [models for key, models in groups.items() if key[0] == source]
        found = [_panel(study, *place) for place in product(own, tasks_shown(study))]
        shown = [panel for panel in found if any(panel.shares.values())]
        if shown:
            rows.append((_order(shown), shown))
    if not rows:
        return None
    languages = [name for name in study.order("language")
                 if any(name in one for _, shown in rows for panel in shown
                        for one in panel.shares.values())]  # fmt: skip
    heights = [_ROW * len(names) + 0.6 for names, _ in rows]
    figure = new_figure(WIDTH, sum(heights) + _MARGIN)
    columns = max(len(shown) for _, shown in rows)
    axes = figure.subplots(len(rows), columns, squeeze=False, height_ratios=heights)
    styles = {language: {"color": COLOURS[at % len(COLOURS)], "marker": MARKERS[at % len(MARKERS)]}
              for at, language in enumerate(languages)}  # fmt: skip
    for (names, shown), line in zip(rows, axes, strict=True):
        for axis in line[len(shown) :]:
            axis.remove()
        limits = _limits(shown)
        for at, (axis, panel) in enumerate(zip(line, shown, strict=False)):
            _draw_panel(axis, panel, names, styles, limits)
            axis.set_yticks(range(len(names)), map(initializer_name, names) if at == 0 else [])
            axis.set_ylim(len(names) - 0.4, -0.6)
            title_panel(axis, panel.title)
    _legend(figure, study, styles)
    floor = initializer_name(study.item.option("floor"))
    figure.supxlabel(f"share of the gap closed (%): {floor} is 0, the source model 100", fontsize=8)
    return figure


def _panel(study: StudyResults, models: list[Model], task: str) -> _Panel:
    shares = gap_shares(study, models, task)
    means = standings(shares, models[0].source, models[0].vocabulary, task)
    several = {
        models[0].source: study.has_several_sources,
        models[0].vocabulary: len(study.new_vocabularies) > 1,
        task_name(task, study.kind(task)): len(tasks_shown(study)) > 1,
    }
    title = ", ".join(name for name, named in several.items() if named)
    languages = with_gap(shares)
    return _Panel(
        title or study.title,
        {model.initializer: {name: own[name] for name in languages if name in own}
         for model, own in shares.items()},
        {model.initializer: mean for model, mean in means.items()},
    )  # fmt: skip


def _order(panels: list[_Panel]) -> list[str]:
    """The initializers, from the one with the highest mean in the first panel on."""
    first = panels[0].means
    names = dict.fromkeys(name for panel in panels for name, own in panel.shares.items() if own)
    return sorted(names, key=lambda name: -first[name].share if name in first else math.inf)


def _limits(panels: list[_Panel]) -> tuple[float, float]:
    """Ends of the axis, in percent, which all panels of a source model share."""
    values = [100 * one.share for panel in panels for own in panel.shares.values()
              for one in own.values()]  # fmt: skip
    low, high = max(min(values, default=0.0), _LOWEST), max(*values, 100.0)
    return min(low, 0.0) - 4, high + 4


def _draw_panel(
    axis: Axes,
    panel: _Panel,
    names: list[str],
    styles: Mapping[str, Mapping[str, Any]],
    limits: tuple[float, float],
) -> None:
    for level in (0, 100):
        axis.axvline(level, color=MUTED, lw=0.8, ls=":", zorder=1)
    for y, name in enumerate(names):
        for language, one in panel.shares.get(name, {}).items():
            _mark(axis, 100 * one.share, y, limits, ms=3.4, mew=0, zorder=2, **styles[language])
        if mean := panel.means.get(name):
            _mean(axis, mean, y, limits)
    axis.set_xlim(*limits)
    plain_axis(axis)


def _mark(axis: Axes, x: float, y: int, limits: tuple[float, float], **style: Any) -> None:
    """A mark at its place, or an arrow at the edge of what lies beyond."""
    if x < limits[0]:
        axis.plot(0, y, transform=axis.get_yaxis_transform(), clip_on=False,
                  **{**style, "marker": "<"})  # fmt: skip
    else:
        axis.plot(x, y, ls="", **style)


def _mean(axis: Axes, mean: Standing, y: int, limits: tuple[float, float]) -> None:
    """The mean, its interval, and its number at the right end."""
    low, high = (max(100 * end, limits[0]) for end in (mean.low, mean.high))
    if math.isfinite(low) and high > limits[0]:
        axis.plot([low, high], [y, y], color=INK, lw=1.4, zorder=3, solid_capstyle="butt")
    _mark(axis, 100 * mean.share, y, limits, color=INK, marker="|", ms=8, mew=1.8, zorder=4)
    axis.annotate(number(100 * mean.share, 0), (1, y), (3, 0), va="center", fontsize=7, color=INK,
                  xycoords=axis.get_yaxis_transform(), textcoords="offset points")  # fmt: skip


def _legend(figure: Figure, study: StudyResults, styles: Mapping[str, Mapping[str, Any]]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], ls="", ms=4, mew=0, label=study.language(name), **style)
               for name, style in styles.items()]  # fmt: skip
    handles.append(Line2D([], [], color=INK, marker="|", ms=8, mew=1.8, lw=1.4,
                          label="mean, 95 % interval"))  # fmt: skip
    figure.legend(handles=handles, loc="outside upper center", ncols=6, frameon=False, fontsize=7.5)
