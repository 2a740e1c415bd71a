"""Tokens per sentence by language and tokenizer (Yamaguchi et al., Figure 3; VocADT, Figure 6)."""

from typing import Literal

from lexigraft.report import drawing
from lexigraft.report.drawing import Axes, Figure, Look
from lexigraft.report.frame import StudyResults
from lexigraft.report.items import Item, Options, TokenizerNames, figure
from lexigraft.report.names import metric
from lexigraft.report.tables.tokenizers import LENGTH, NOTHING, compared_tokenizers

_Measure = Literal["tokens_per_sentence", "fertility", "bytes_per_token", "english_parity"]


class LengthOptions(Options):
    """The options of a figure of tokenizers."""

    tokenizers: TokenizerNames = ()
    metrics: tuple[_Measure, ...] = ()


def _caption(item: Item) -> str:
    if (measure := (*item.metrics, LENGTH)[0]) != LENGTH:
        title = metric(measure).title
        return f"{title[:1].upper()}{title[1:]}: each tokenizer on the same sentences."
    return (
        "Tokens that each tokenizer needs for a sentence, by language. Averages over the same "
        "sentences in all languages that have translations. Each token takes one generation step "
        "and one context position."
    )


@figure(title="Tokens per sentence", caption=_caption, empty=NOTHING, options=LengthOptions)
def tokens_per_sentence(study: StudyResults, look: Look) -> Figure | None:
    """A row per language, a marker per tokenizer: the item's metric, or tokens per sentence."""
    compared = compared_tokenizers(study)
    if compared is None:
        return None
    measure = (*study.item.metrics, LENGTH)[0]
    values = {
        (tokenizer, language): value
        for (language, tokenizer, name), value in compared.values.items()
        if name == measure
    }
    drawn, axis = draw_dots(study, compared.languages, compared.tokenizers, values)
    axis.set_xlabel(metric(measure).title)
    return drawn


def draw_dots(
    study: StudyResults,
    languages: list[str],
    names: list[str],
    values: dict[tuple[str, str], float],
) -> tuple[Figure, Axes]:
    """A row per language with a marker per name, on a line from the lowest to the highest.

    `values` are the positions of the markers by name and language.
    """
    drawn, (axis,) = drawing.row_panels([0.9 + 0.32 * len(languages)], 0)
    for y, language in enumerate(languages):
        ends = [values[name, language] for name in names if (name, language) in values]
        axis.plot(ends, [y] * len(ends), color=drawing.RULE, lw=1.4, zorder=1)
    for at, name in enumerate(names):
        shift = 0.2 * (at - (len(names) - 1) / 2) / max(1, len(names) / 3)
        points = [(values[name, language], y + shift) for y, language in enumerate(languages)
                  if (name, language) in values]  # fmt: skip
        axis.plot([x for x, _ in points], [y for _, y in points], ms=5.5, mew=0, alpha=0.9,
                  zorder=3, ls="", **drawing.series_style(at, name))  # fmt: skip
    drawing.name_rows(axis, [study.language(language) for language in languages])
    axis.set_xlim(0, None)
    if len(names) > 1:
        drawing.add_legend(drawn)
    return drawn, axis
