"""Scores over the number of new tokens (Yamaguchi et al., Figures 2 and 4)."""

import textwrap
from collections.abc import Callable
from typing import Any

from lexigraft.report import drawing
from lexigraft.report.drawing import INK, MUTED, Axes, Figure, Look
from lexigraft.report.frame import Model, StudyResults
from lexigraft.report.items import ScoreOptions, figure
from lexigraft.report.models import Unit, models, quality_columns, speed_up_of
from lexigraft.report.names import SAME_TEXT, metric, task_name

_MOST_COLUMNS = 4
Find = Callable[[Model, str], dict[str, Any] | None]  # the score of a model in a language


class SizeOptions(ScoreOptions):
    """The options of a figure over vocabulary sizes."""

    speed: Unit = SAME_TEXT


@figure(
    title="Quality and speed-up by vocabulary size",
    caption="Quality and speed-up, or the metrics that the item names, by the number of new tokens,"
    " which are evenly spaced and not to scale. The speed-up over Source is for the same text "
    "(characters per second) unless the axis names another unit, with the smallest batch measured. "
    "Training: {strategy}. Bars: one standard deviation. Dotted: Source; dashed and dotted: LAPT.",
    empty="no vocabulary's size and quality were both measured",
    options=SizeOptions,
)
def vocabulary_size(study: StudyResults, look: Look) -> Figure | None:
    """A row of quality and one of speed-up per task and source model; a column per language.

    Sizes are evenly spaced, not to scale, so that 50 and 100 can be distinguished next to 5,000. A
    line has one kind of vocabulary: if a study has two of the same size, its item selects one.
    """
    columns, sizes = quality_columns(study), _new_token_counts(study)
    sources = [name for name in study.order("source") if name in {key[0] for key in sizes}]
    rows = [
        (source, f"{source}\n{label}" if len(sources) > 1 else label, find)
        for task, name in dict.fromkeys((task, name) for _, task, name in columns)
        for source in sources
        for label, find in _scores(study, source, task, name).items()
    ]
    if not rows:
        return None
    languages = list(dict.fromkeys(language for language, *_ in columns))
    ticks = sorted(set(sizes.values()))
    labels = [f"{n // 1000}K" if n and n % 1000 == 0 else f"{n:,}" for n in ticks]
    titles = [study.language(name) for name in languages]
    drawn, panels = drawing.panel_grid(titles, _MOST_COLUMNS, 1.35, len(rows), margin=0.6)
    for at, (language, axes) in enumerate(zip(languages, panels, strict=True)):
        for (source, label, find), axis in zip(rows, axes, strict=True):
            of_panel = {name: ticks.index(size) for (of_source, of, name), size in sizes.items()
                        if (of_source, of) == (source, language)}  # fmt: skip
            _draw(axis, study, look, source, language, of_panel, find)
            drawing.plain_axis(axis, "y")
            axis.tick_params(labelsize=7)
            axis.locator_params(axis="y", nbins=4)
            axis.set_xlim(-0.35, len(ticks) - 0.65)
            axis.set_xticks(range(len(ticks)), labels)
            axis.tick_params(labelbottom=axis is axes[-1])
            if at % _MOST_COLUMNS == 0:
                wrapped = (textwrap.fill(line, 18) for line in label.split("\n"))
                axis.set_ylabel("\n".join(wrapped), fontsize=7.5)
    drawn.align_ylabels()
    drawing.add_legend(drawn)
    drawn.supxlabel("new tokens (evenly spaced)", fontsize=7.5)
    return drawn


def _scores(study: StudyResults, source: str, task: str, name: str) -> dict[str, Find]:
    """The scores of a task and the speed-ups on its prompts, by the label of their row."""
    kind, unit = study.task_kind(task), study.item.option("speed") or SAME_TEXT
    label, speeds = task_name(task, kind), speed_up_of(study)
    noise = all(
        study.is_noise(source, (language, task, name)) for language in study.order("language")
    )
    title = f"{label}, {metric(name).title}{' (noise)' if noise else ''}"
    rows: dict[str, Find] = {title: lambda model, language: study.find(model, language, task, name)}
    if kind in study.prompts_from.values() and not name.startswith("new_token_share"):
        of_unit = "" if unit == SAME_TEXT else f" of {unit.replace('_', ' ')}"
        rows[f"{label}, speed-up{of_unit} (×)"] = lambda model, language: speeds.get(
            (model, language, kind)
        )
    return rows


def _draw(
    axis: Axes,
    study: StudyResults,
    look: Look,
    source: str,
    language: str,
    sizes: dict[str, int],
    find: Find,
) -> None:
    """Draw a line per initializer over the places in `sizes`, and Source and LAPT as levels."""
    levels: dict[bool, Model] = {}
    for model in models(study):
        if model.baseline and model.source == source:
            levels.setdefault(model.is_source, model)
    for is_source, model in levels.items():
        if (score := find(model, language)) is not None:
            style: dict[str, Any] = {"color": INK, "ls": (0, (1, 1.4))}
            if not is_source:
                style = {"color": MUTED, "ls": (0, (5, 1.5, 1, 1.5))}
            name = "Source" if is_source else "LAPT"
            axis.axhline(score["mean"], lw=1, zorder=1, label=name, **style)
    strategy = study.reference_strategy or "none"
    names = sorted(
        (key for key in study.order("vocabulary") if key in sizes), key=lambda key: sizes[key]
    )
    for initializer in study.initializers:
        # A missing size interrupts the line, since nothing is known between its neighbours.
        missing = {"mean": float("nan"), "std": float("nan")}
        grafts = [Model(source, name, initializer, strategy) for name in names]
        scores = [find(graft, language) or missing for graft in grafts]
        means = [score["mean"] for score in scores]
        if any(mean == mean for mean in means):
            axis.errorbar([sizes[name] for name in names], means, [s["std"] for s in scores],
                          ms=4, capsize=1.5, elinewidth=0.8, **look.style(initializer))  # fmt: skip
    if not axis.has_data():
        axis.annotate("not measured", (0.5, 0.5), xycoords="axes fraction", ha="center",
                      va="center", fontsize=7, color=MUTED)  # fmt: skip
    elif axis.dataLim.height == 0:
        # If all values are the same, matplotlib would show the rounding errors.
        axis.set_ylim(axis.dataLim.y0 - 1, axis.dataLim.y0 + 1)


def _new_token_counts(study: StudyResults) -> dict[tuple[str, str, str], int]:
    """Source, language and vocabulary -> new tokens, from the records of the tokenizers."""
    frame = study.fragmentation
    frame = frame[(frame["metric"] == "new_tokens") & (frame["vocabulary"] != "source")]
    return frame.set_index(["source", "language", "vocabulary"])["value"].astype(int).to_dict()
