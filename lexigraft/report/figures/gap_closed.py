"""How much of the gap from random rows to the source model each initializer closes."""

import math

from lexigraft.report import drawing
from lexigraft.report.drawing import Figure, Look
from lexigraft.report.frame import StudyResults
from lexigraft.report.items import TaskOptions, figure
from lexigraft.report.names import initializer_name, task_name
from lexigraft.report.table import number
from lexigraft.report.tables.leaderboard import (
    FLOOR,
    NOTHING,
    Gap,
    best_first,
    gaps,
    languages_with_gap,
)

_LOWEST = -0.5  # lower shares are outside the axis; means are also numbers


@figure(
    title="Share of the gap closed before any training (higher is better)",
    caption="Share of the gap that each initializer closes before any training: from the graft "
    "with random rows (0 %) to the source model (100 %), in bits per byte of the same text. Small "
    "marks: languages; black: the mean with its 95 % interval, over languages and the sentences of "
    "each.",
    empty=NOTHING,
    options=TaskOptions,
    rank=2,
)
def gap_closed(study: StudyResults, look: Look) -> Figure | None:
    """A row of panels per source model, one for each vocabulary and task, with shared rows."""
    panels = {key: gap for key, gap in gaps(study).items() if languages_with_gap(gap)}
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
    # Initializers by their mean in the first panel, then those that only others have.
    orders = [
        list(dict.fromkeys(
            model.initializer for gap in row.values() for model in best_first(gap)
            if not model.baseline
        ))
        for row in by_source.values()
    ]  # fmt: skip
    heights = [0.2 * len(names) + 0.6 for names in orders]
    drawn = drawing.new_figure(drawing.WIDTH, sum(heights) + 0.6)
    columns = max(map(len, by_source.values()))
    axes = drawn.subplots(
        len(by_source), columns, squeeze=False, height_ratios=heights, sharex="row", sharey="row"
    )
    measured = {language for gap in panels.values() for language in languages_with_gap(gap)}
    languages = [name for name in study.order("language") if name in measured]
    black = {"label": "mean, 95 % interval", "color": drawing.INK, "ms": 8, "mew": 1.8}
    for row, names, row_axes in zip(by_source.values(), orders, axes, strict=True):
        for axis in row_axes[len(row) :]:
            axis.remove()
        for axis, (title, gap) in zip(row_axes, row.items(), strict=False):
            for level in (0, 100):
                axis.axvline(level, color=drawing.MUTED, lw=0.8, ls=":", zorder=1)
            for model, results in gap.items():
                if model.initializer not in names:
                    continue
                y, mean = names.index(model.initializer), results.get("")
                for at, language in enumerate(languages):
                    if language in results and results[language].share >= _LOWEST:
                        style = drawing.series_style(at, study.language(language))
                        axis.plot(100 * results[language].share, y, zorder=3.5, ls="", ms=3.4,
                                  mew=0, **style)  # fmt: skip
                if mean is not None:
                    axis.annotate(number(100 * mean.share, 0), (1, y), (5, 0), va="center",
                                  xycoords=axis.get_yaxis_transform(), fontsize=7.5,
                                  textcoords="offset points")  # fmt: skip
                    if mean.share >= _LOWEST:
                        axis.plot(100 * mean.share, y, zorder=4, marker="|", lw=1.4, **black)
                    if math.isfinite(mean.low) and mean.high > _LOWEST:
                        ends = [100 * max(mean.low, _LOWEST), 100 * mean.high]
                        axis.plot(ends, [y, y], color=drawing.INK, lw=1.4, zorder=3)
            drawing.title_panel(axis, title)
            drawing.name_rows(axis, [*map(initializer_name, names)])
    drawing.add_legend(drawn)
    floor = initializer_name(FLOOR)
    drawn.supxlabel(f"share of the gap closed (%): {floor} is 0, the source model 100", fontsize=8)
    return drawn
