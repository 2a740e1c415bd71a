"""Tokens that a sentence takes, by language and tokenizer (paper 000, Figure 3; 001, Figure 6)."""

from typing import TYPE_CHECKING

from lexigraft.report.metrics import metric
from lexigraft.report.study import Study
from lexigraft.report.style import (
    COLOURS,
    MARKERS,
    MUTED,
    RULE,
    WIDTH,
    Look,
    new_figure,
    plain_axis,
)
from lexigraft.report.tables.tokenizers import LENGTH
from lexigraft.report.tokenizers import compared

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


def draw(study: Study, summary: "pandas.DataFrame", look: Look) -> "Figure | None":
    """A row per language, a marker per tokenizer; of the item's metric, or tokens per sentence."""
    found = compared(study)
    if found is None:
        return None
    name = shown_metric(study)
    figure = new_figure(WIDTH, 1.1 + 0.32 * len(found.languages))
    axis = figure.subplots()
    for y, language in enumerate(found.languages):
        own = [found.value(language, tokenizer, name) for tokenizer in found.tokenizers]
        measured = [value for value in own if value is not None]
        if measured:
            axis.plot([min(measured), max(measured)], [y, y], color=RULE, lw=1.4, zorder=1)
    for place, tokenizer in enumerate(found.tokenizers):
        shift = 0.2 * (place - (len(found.tokenizers) - 1) / 2) / max(1, len(found.tokenizers) / 3)
        points = [
            (value, y + shift)
            for y, language in enumerate(found.languages)
            if (value := found.value(language, tokenizer, name)) is not None
        ]
        axis.plot([x for x, _ in points], [y for _, y in points], MARKERS[place % len(MARKERS)],
                  color=COLOURS[place % len(COLOURS)], ms=5.5, label=tokenizer, mew=0, alpha=0.9,
                  zorder=3)  # fmt: skip
    axis.set_yticks(
        range(len(found.languages)), [study.language(language) for language in found.languages]
    )
    axis.set_ylim(len(found.languages) - 0.5, -0.6)
    axis.set_xlim(0, None)
    axis.spines["left"].set_color(MUTED)
    plain_axis(axis)
    axis.set_xlabel(metric(name).title)
    figure.legend(loc="outside upper right", ncols=4, frameon=False, fontsize=7.5)
    return figure


def caption(study: Study) -> str:
    """What the figure shows, for the page."""
    if shown_metric(study) != LENGTH:
        title = metric(shown_metric(study)).title
        return f"{title[:1].upper()}{title[1:]}: each tokenizer on the same sentences."
    return (
        "Tokens that each tokenizer needs for a sentence, on average over the same sentences in "
        "each language that has translations. Every token is a step of generation and a place in "
        "the context."
    )


def shown_metric(study: Study) -> str:
    """The metric that an item of this kind shows."""
    return study.asked.metrics[0] if study.asked.metrics else LENGTH
