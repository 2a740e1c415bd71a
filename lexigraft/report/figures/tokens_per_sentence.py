"""Tokens per sentence by language and tokenizer (Yamaguchi et al., Figure 3; VocADT, Figure 6)."""

from typing import Literal

from lexigraft.report.items import Item, Kind, Options, TokenizerNames
from lexigraft.report.metrics import metric
from lexigraft.report.study import StudyResults
from lexigraft.report.style import (
    MUTED,
    RULE,
    WIDTH,
    Axes,
    Figure,
    Look,
    new_figure,
    plain_axis,
    series_style,
)
from lexigraft.report.tables.tokenizers import KIND as TABLE
from lexigraft.report.tables.tokenizers import LENGTH, compared

_Measure = Literal["tokens_per_sentence", "fertility", "bytes_per_token", "english_parity"]


class LengthOptions(Options):
    """The options of a figure of tokenizers."""

    tokenizers: TokenizerNames = ()
    metrics: tuple[_Measure, ...] = ()


def _caption(item: Item) -> str:
    name = _metric(item)
    if name != LENGTH:
        title = metric(name).title
        return f"{title[:1].upper()}{title[1:]}: each tokenizer on the same sentences."
    return (
        "Tokens that each tokenizer needs for a sentence, by language. Averages over the same "
        "sentences in all languages that have translations. Each token takes one generation step "
        "and one context position."
    )


def _metric(item: Item) -> str:
    return item.metrics[0] if item.metrics else LENGTH


KIND = Kind(
    title="Tokens per sentence",
    caption=_caption,
    empty=TABLE.empty,
    options=LengthOptions,
)


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """A row per language, a marker per tokenizer: the item's metric, or tokens per sentence."""
    found = compared(study)
    if found is None:
        return None
    name = _metric(study.item)
    values = {(tokenizer, language): value
              for (language, tokenizer, measure), value in found.values.items()
              if measure == name}  # fmt: skip
    figure, axis = draw_dots(study, found.languages, found.tokenizers, values)
    axis.set_xlabel(metric(name).title)
    return figure


def draw_dots(
    study: StudyResults,
    languages: list[str],
    names: list[str],
    values: dict[tuple[str, str], float],
    reaching: float | None = None,
) -> tuple[Figure, Axes]:
    """A row per language with a marker per name, on a line from the lowest to the highest.

    `values` are the positions of the markers by name and language; the line of each language
    extends to `reaching`.
    """
    figure = new_figure(WIDTH, 1.1 + 0.32 * len(languages))
    axis = figure.subplots()
    for y, language in enumerate(languages):
        own = [values[name, language] for name in names if (name, language) in values]
        if own:
            own += [] if reaching is None else [reaching]
            axis.plot([min(own), max(own)], [y, y], color=RULE, lw=1.4, zorder=1)
    for place, name in enumerate(names):
        shift = 0.2 * (place - (len(names) - 1) / 2) / max(1, len(names) / 3)
        points = {
            y + shift: values[name, language]
            for y, language in enumerate(languages)
            if (name, language) in values
        }
        axis.plot([*points.values()], [*points], ls="", ms=5.5, mew=0, alpha=0.9, zorder=3,
                  label=name, **series_style(place))  # fmt: skip
    axis.set_yticks(range(len(languages)), [study.language(language) for language in languages])
    axis.set_ylim(len(languages) - 0.5, -0.6)
    axis.set_xlim(0, None)
    axis.spines["left"].set_color(MUTED)
    plain_axis(axis)
    if len(names) > 1:
        figure.legend(loc="outside upper right", ncols=4)
    return figure, axis
