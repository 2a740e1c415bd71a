"""Held-out bits per byte by training tokens and by time, and the cost of the same text."""

import math
from itertools import product
from typing import NamedTuple

from lexigraft.report.before_after import METRIC
from lexigraft.report.curves import (
    Line,
    Scale,
    draw_curve,
    lines,
    scale,
    sentences_scored,
    source_level,
    with_elapsed,
)
from lexigraft.report.items import Kind
from lexigraft.report.models import models_of
from lexigraft.report.names import listed
from lexigraft.report.study import StudyResults
from lexigraft.report.style import (
    COLOURS,
    INK,
    MUTED,
    WIDTH,
    Axes,
    Figure,
    Look,
    add_legend,
    new_figure,
    plain_axis,
    title_panel,
)
from lexigraft.report.summarize import CELL, Frame, select
from lexigraft.report.table import number
from lexigraft.report.tables.fragmentation import fragmentation

KIND = Kind(
    title="Bits per byte during training (lower is better)",
    caption="Bits per byte of held-out sentences over training tokens and training time: a line "
    "per initializer, or per strategy if the item names several, and one for LAPT (the source "
    "model trained with its own vocabulary). Dotted: the source model on the same sentences. Lines "
    "are means over {seeds}, faint lines single seeds. Right: the cost of the same text with each "
    "vocabulary in tokens, in seconds of training and in seconds of generation (one text at a "
    "time, or the smallest batch measured).",
    empty="no training log has bits per byte",
    rank=0,
)
_STEPS, _STEP_SPEED = "steps_per_sentence", "steps_per_second_batch_"
_OWN = "source"  # the vocabulary of a source model
# Height in inches of a row of panels, and of a bar or a line of the legend; height of a cost's
# title in bars; letters of the legend per inch.
_HEIGHT, _BAR, _HEAD, _LETTERS = 2.1, 0.17, 1.5, 18


class TextCost(NamedTuple):
    """The cost of a text with each vocabulary."""

    title: str
    by_vocabulary: dict[str, float]


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """A row per source and language: bits per byte over tokens, over time, and the costs."""
    drawn = lines(study, look)
    trained = [line.model for line in drawn]
    logged = _logged(study, drawn)
    overs = [over for over in ("tokens", "elapsed") if over in logged and logged[over].max() > 0]
    panels = [
        panel
        for panel in product(study.order("source"), study.order("language"))
        if overs and len(select(logged, source=panel[0], language=panel[1]))
    ]
    if not panels:
        return None
    costs = [text_costs(study, drawn, *panel) for panel in panels]
    bars = max(sum(_HEAD + len(cost.by_vocabulary) for cost in own) for own in costs)
    # Models of two source models may have the same name and style.
    styles = {line.name: {"ms": 4.5, **line.style} for line in drawn}
    levels = [source_level(study, trained, *panel, METRIC) for panel in panels]
    if any(level is not None for level in levels):
        styles["Source"] = {"color": MUTED, "ls": ":", "lw": 1}
    columns = min(6, int(WIDTH / (0.5 + max(map(len, styles)) / _LETTERS)))
    margin = 0.35 + _BAR * math.ceil(len(styles) / columns)
    figure = new_figure(WIDTH, margin + max(_HEIGHT, _BAR * bars) * len(panels))
    ratios = [1.0] * len(overs) + [0.85] * (bars > 0)
    axes = figure.subplots(len(panels), len(ratios), squeeze=False, width_ratios=ratios)
    watched = sentences_scored(study, trained)
    devices = _devices(study, drawn)
    for (source, language), own_costs, level, row in zip(panels, costs, levels, axes, strict=True):
        own = select(logged, source=source, language=language)
        for axis, over in zip(row, overs, strict=False):
            _draw_curves(axis, own, drawn, scale(logged, over), level)
            if over == "elapsed" and len(devices) > 1:
                axis.set_xlabel(f"{axis.get_xlabel()}\non {listed(devices)}")
        for axis in row[1 : len(overs)]:
            axis.sharey(row[0])
        title_panel(row[0], study.place(source, language))
        row[0].set_ylabel("held-out bits per byte" + (f"\n({watched})" if watched else ""))
        if bars:
            _draw_costs(row[-1], own_costs, bars)
    add_legend(figure, styles, columns)
    return figure


def text_costs(
    study: StudyResults, drawn: list[Line], source: str, language: str
) -> list[TextCost]:
    """The cost of a sentence, and of 1,000, with the source's vocabulary and with each new one.

    Training: the seconds per token of the drawn models, times the tokens of the held-out sentences.
    Generation: the decoding steps of the same sentences times the measured time of a step.
    """
    frame = select(fragmentation(study), source=source, language=language)
    if frame.empty:
        return []
    tokens = {_OWN: float(frame["tokens_per_sentence_before"].iloc[0])}
    tokens |= dict(zip(frame["vocabulary"], map(float, frame["tokens_per_sentence"]), strict=True))
    models = {line.model for line in drawn}
    reading, writing = {}, _writing_times(study, source, language)
    for vocabulary, length in tokens.items():
        cards = select(study.training, source=source, language=language, vocabulary=vocabulary)
        cards = cards[[model in models for model in models_of(cards)]]
        if "seconds" in cards and cards["tokens"].sum() > 0 and cards["seconds"].sum() > 0:
            reading[vocabulary] = 1000 * length * cards["seconds"].sum() / cards["tokens"].sum()
    found = [
        TextCost("tokens per sentence", tokens),
        TextCost("training, s per 1,000 sentences", reading),
        TextCost("generation, s per 1,000 sentences", writing),
    ]
    # A single vocabulary has nothing to be compared with.
    return [cost for cost in found if len(cost.by_vocabulary) > 1]


def _writing_times(study: StudyResults, source: str, language: str) -> dict[str, float]:
    """Seconds to generate 1,000 held-out sentences by vocabulary: Source's, and means of others."""
    measured = select(study.summary, source=source, language=language)
    rates = measured[measured["metric"].str.startswith(_STEP_SPEED)]
    if rates.empty:
        return {}
    rates = rates[rates["task"] == rates["task"].iloc[0]]
    batch = rates["metric"].str.removeprefix(_STEP_SPEED).astype(int)
    rates = rates[batch == batch.min()]
    steps = select(measured, metric=_STEPS)[[*CELL, "task", "mean"]]
    both = rates.merge(steps, on=[*CELL, "task"], suffixes=("", "_steps"))
    both["seconds"] = 1000 * both["mean_steps"] / (batch.min() * both["mean"])
    untouched = both[(both["vocabulary"] != _OWN) | (both["strategy"] == "none")]
    means = {**both.groupby("vocabulary", sort=False)["seconds"].mean(),
             **untouched.groupby("vocabulary", sort=False)["seconds"].mean()}  # fmt: skip
    return {str(vocabulary): float(seconds) for vocabulary, seconds in means.items()}


def _logged(study: StudyResults, drawn: list[Line]) -> Frame:
    """The held-out scores in the logs of the drawn models."""
    curves = with_elapsed(study.curves)
    if METRIC not in curves:
        return curves.iloc[:0]
    heldout = select(curves, event="heldout")
    heldout = heldout[heldout[METRIC].notna()]
    models = {line.model for line in drawn}
    return heldout[[model in models for model in models_of(heldout)]]


def _devices(study: StudyResults, drawn: list[Line]) -> list[str]:
    """The devices of the drawn models: training times on different devices are not comparable."""
    models = {line.model for line in drawn}
    known = study.training.get("device", ())
    own = zip(models_of(study.training), known, strict=False)
    return list(dict.fromkeys(str(device) for model, device in own if model in models))


def _draw_curves(
    axis: Axes, logged: Frame, drawn: list[Line], over: Scale, level: float | None
) -> None:
    for model, _, style in drawn:
        draw_curve(axis, select(logged, **model.keys()), METRIC, over, style)
    if level is not None:
        axis.axhline(level, color=MUTED, ls=":", lw=1, zorder=1)
    plain_axis(axis, "y")
    axis.tick_params(axis="x", length=2.5)
    axis.locator_params(axis="x", nbins=5)
    axis.set_xlim(0, None)
    axis.set_xlabel(over.label)


def _draw_costs(axis: Axes, costs: list[TextCost], most: float) -> None:
    """Draw bars with numbers under the title of each cost, scaled to its largest value.

    There is room for `most` bars and titles, the same next to every row of panels.
    """
    place, names = 0.0, {}
    for title, values in costs:
        axis.annotate(title, (0, place), va="center", color=INK, fontsize=7.5)
        for vocabulary, value in values.items():
            place += 1
            own = vocabulary == _OWN
            length = value / max(values.values())
            axis.barh(place, length, 0.72, color=MUTED if own else COLOURS[0], alpha=0.55)
            axis.annotate(number(value, 0 if value >= 100 else 1), (length, place), (3, 0),
                          textcoords="offset points", va="center", fontsize=7.5)  # fmt: skip
            names[place] = "Source, LAPT" if own else vocabulary
        place += _HEAD
    axis.set_yticks([*names], [*names.values()], fontsize=7.5)
    axis.set_ylim(most - 0.6, -0.6)
    axis.set_xlim(0, 1.3)
    axis.set_xticks([])
    axis.tick_params(axis="y", length=0)
    axis.spines[["left", "bottom"]].set_visible(False)
