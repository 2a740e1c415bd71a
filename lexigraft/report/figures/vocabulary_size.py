"""Quality and speed-up over the number of new tokens (Yamaguchi et al., Figure 2)."""

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lexigraft.report import drawing
from lexigraft.report.drawing import INK, MUTED, Figure, Look
from lexigraft.report.frame import Model, StudyResults
from lexigraft.report.items import ScoreOptions, figure
from lexigraft.report.models import models, quality_columns
from lexigraft.report.names import SAME_TEXT, metric, task_name
from lexigraft.report.speed import Unit, speed_up_of

_MOST_COLUMNS = 4
Score = dict[str, Any] | None  # a row of the summary
Find = Callable[[Model, str], Score]  # the score of a model in a language


Lines = list[tuple[dict[str, Any], Callable[[str, str], Score]]]


class SizeOptions(ScoreOptions):
    """The options of a figure over vocabulary sizes."""

    speed: Unit = SAME_TEXT


class PanelRow(NamedTuple):
    """A row of panels of one source model: a line for each style."""

    label: str
    source: str
    # Settings of matplotlib, and the score by vocabulary and language. A baseline is a level, whose
    # score does not depend on the vocabulary.
    lines: Lines
    levels: Lines
    scale: float = 1.0


@figure(
    title="Quality and speed-up by vocabulary size",
    caption="Quality and speed-up by the number of new tokens, which are evenly spaced and not to "
    "scale. The speed-up over Source is for the same text (characters per second) unless the axis "
    "names another unit, with the smallest batch measured. Training: {strategy}. Bars: one "
    "standard deviation. Dotted: Source; dashed and dotted: LAPT.",
    empty="no vocabulary's size and quality were both measured",
    options=SizeOptions,
)
def vocabulary_size(study: StudyResults, look: Look) -> Figure | None:
    """A row of quality and one of speed-up per task and source model; a column per language."""
    columns, speeds = quality_columns(study), speed_up_of(study)
    unit = study.item.option("speed") or SAME_TEXT
    of_unit = "" if unit == SAME_TEXT else f" of {unit.replace('_', ' ')}"
    rows: list[PanelRow] = []
    for task, name in dict.fromkeys((task, name) for _, task, name in columns):
        kind = study.task_kind(task)

        def quality(model: Model, language: str, task: str = task, name: str = name) -> Score:
            return study.find(model, language, task, name)

        def speed(model: Model, language: str, kind: str = kind) -> Score:
            return speeds.get((model, language, kind))

        noise = all(
            study.is_noise(source, column)
            for source in study.order("source")
            for column in columns
            if column[1:] == (task, name)
        )
        labels = {f", {metric(name).title}{' (noise)' if noise else ''}": quality}
        if kind in study.prompts_from.values():
            labels[f", speed-up{of_unit} (×)"] = speed
        for source, prefix in sources_with_sizes(study):
            for ending, find in labels.items():
                label = prefix + task_name(task, kind) + ending
                lines = [(look.style(key), line_of(study, source, key, find))
                         for key in study.initializers]  # fmt: skip
                rows.append(PanelRow(label, source, lines, _levels(study, source, find)))
    languages = list(dict.fromkeys(language for language, *_ in columns))
    return draw_over_sizes(study, rows, languages) if rows else None


def line_of(
    study: StudyResults, source: str, initializer: str, find: Find
) -> Callable[[str, str], Score]:
    """The scores of an initializer under the reference strategy, by vocabulary and language."""
    strategy = study.reference_strategy or "none"
    return lambda vocabulary, language: find(
        Model(source, vocabulary, initializer, strategy), language
    )


def _levels(study: StudyResults, source: str, find: Find) -> Lines:
    """Source and LAPT."""
    styles = {
        True: {"label": "Source", "color": INK, "ls": (0, (1, 1.4))},
        False: {"label": "LAPT", "color": MUTED, "ls": (0, (5, 1.5, 1, 1.5))},
    }
    baselines = [model for model in models(study) if model.baseline and model.source == source]
    return [
        (styles[model.is_source], lambda _, language, model=model: find(model, language))
        for model in {model.is_source: model for model in reversed(baselines)}.values()
    ][::-1]


def new_token_counts(study: StudyResults) -> dict[tuple[str, str, str], int]:
    """Source, language and vocabulary -> new tokens, from the records of the tokenizers."""
    frame = study.fragmentation
    frame = frame[(frame["metric"] == "new_tokens") & (frame["vocabulary"] != "source")]
    return frame.set_index(["source", "language", "vocabulary"])["value"].astype(int).to_dict()


def sources_with_sizes(study: StudyResults) -> list[tuple[str, str]]:
    """Source models with new vocabularies, and the prefixes of the labels of their rows."""
    known = {source for source, *_ in new_token_counts(study)}
    names = [name for name in study.order("source") if name in known]
    return [(name, f"{name}\n" if len(names) > 1 else "") for name in names]


def draw_over_sizes(
    study: StudyResults, rows: Sequence[PanelRow], languages: Sequence[str]
) -> Figure:
    """Draw rows of panels over the size of the vocabulary: a column per language.

    Sizes are evenly spaced, not to scale, so that 50 and 100 can be distinguished next to 5,000. A
    line has one kind of vocabulary: if a study has two of the same size, its item selects one.
    """
    sizes = new_token_counts(study)
    ticks = sorted(set(sizes.values()))
    labels = [f"{n // 1000}K" if n and n % 1000 == 0 else f"{n:,}" for n in ticks]
    titles = [study.language(name) for name in languages]
    figure, panels = drawing.panel_grid(titles, _MOST_COLUMNS, 1.35, len(rows), margin=0.6)
    for at, (language, axes) in enumerate(zip(languages, panels, strict=True)):
        for row, axis in zip(rows, axes, strict=True):
            for style, score in row.levels:
                if (value := score("source", language)) is not None:
                    axis.axhline(value["mean"], lw=1, zorder=1, **style)
            of_row = {name: size for (source, of, name), size in sizes.items()
                      if (source, of) == (row.source, language)}  # fmt: skip
            names = [name for name in study.order("vocabulary") if name in of_row]
            names.sort(key=of_row.__getitem__)
            for style, score in row.lines:
                # A missing size interrupts the line, since nothing is known between its neighbours.
                missing = {"mean": math.nan, "std": math.nan}
                values = [score(name, language) or missing for name in names]
                means, spreads = (
                    [row.scale * value[number] for value in values] for number in ("mean", "std")
                )
                if not all(map(math.isnan, means)):
                    x = [ticks.index(of_row[name]) for name in names]
                    axis.errorbar(x, means, spreads, ms=4, capsize=1.5, elinewidth=0.8, **style)
            if not axis.has_data():
                axis.annotate("not measured", (0.5, 0.5), xycoords="axes fraction", ha="center",
                              va="center", fontsize=7, color=MUTED)  # fmt: skip
            elif axis.dataLim.height == 0:
                # If all values are the same, matplotlib would show the rounding errors.
                axis.set_ylim(axis.dataLim.y0 - 1, axis.dataLim.y0 + 1)
            drawing.plain_axis(axis, "y")
            axis.tick_params(labelsize=7)
            axis.locator_params(axis="y", nbins=4)
            axis.set_xlim(-0.35, len(ticks) - 0.65)
            axis.set_xticks(range(len(ticks)), labels)
            axis.tick_params(labelbottom=row is rows[-1])
            if at % _MOST_COLUMNS == 0:
                wrapped = (textwrap.fill(line, 18) for line in row.label.split("\n"))
                axis.set_ylabel("\n".join(wrapped), fontsize=7.5)
    figure.align_ylabels()
    drawing.add_legend(figure)
    figure.supxlabel("new tokens (evenly spaced)", fontsize=7.5)
    return figure
