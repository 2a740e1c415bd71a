"""Tokens per sentence by language and tokenizer (Yamaguchi et al., Figure 3; VocADT, Figure 6)."""

from typing import Literal

import numpy as np

from lexigraft.report import drawing
from lexigraft.report.drawing import Figure, Look
from lexigraft.report.frame import StudyResults
from lexigraft.report.items import Options, TokenizerNames, figure
from lexigraft.report.names import metric
from lexigraft.report.tables.tokenizers import LENGTH, NOTHING, compared_tokenizers

_Measure = Literal["tokens_per_sentence", "fertility", "bytes_per_token", "english_parity"]


class LengthOptions(Options):
    """The options of a figure of tokenizers."""

    tokenizers: TokenizerNames = ()
    metrics: tuple[_Measure, ...] = ()


@figure(
    title="Tokens per sentence",
    caption="Tokens that each tokenizer needs for a sentence, by language, or another measure of "
    "length. Averages over the same sentences in all languages that have translations.",
    empty=NOTHING,
    options=LengthOptions,
)
def tokens_per_sentence(study: StudyResults, look: Look) -> Figure | None:
    """A row per language, a marker per tokenizer: the item's metric, or tokens per sentence."""
    wide = compared_tokenizers(study)
    measure = (*study.item.metrics, LENGTH)[0]
    if measure not in wide or wide[measure].isna().all():
        return None
    values = wide[measure].unstack("tokenizer", sort=False)  # [language, tokenizer]
    drawn, (axis,) = drawing.row_panels([0.9 + 0.32 * len(values)], 0)
    for y, (_, of_language) in enumerate(values.iterrows()):
        axis.plot(of_language, [y] * len(of_language), color=drawing.RULE, lw=1.4, zorder=1)
    count = values.shape[1]
    for at, name in enumerate(values):
        shift = 0.2 * (at - (count - 1) / 2) / max(1, count / 3)
        known = values[name].notna().to_numpy()
        y = np.arange(len(values))[known] + shift
        axis.plot(values[name][known], y, ms=5.5, mew=0, alpha=0.9, zorder=3, ls="",
                  **drawing.series_style(at, name))  # fmt: skip
    drawing.name_rows(axis, [study.language(language) for language in values.index])
    axis.set_xlim(0, None)
    axis.set_xlabel(metric(measure).title)
    if count > 1:
        drawing.add_legend(drawn)
    return drawn
