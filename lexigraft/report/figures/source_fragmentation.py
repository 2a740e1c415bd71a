"""Tokens of each source tokenizer per token of English (Yamaguchi et al., Figure 3)."""

import textwrap
from typing import TYPE_CHECKING

from lexigraft.report.drawing import INK, Look
from lexigraft.report.figures.tokens_per_sentence import draw_dots
from lexigraft.report.frame import StudyResults
from lexigraft.report.items import figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PARITY = "english_parity"


@figure(
    title="Tokens per token of English",
    caption="Tokens that each source model's own tokenizer needs for a translation, per token of "
    "the English original. Measured on the parallel sentences of each language. 1 is as short "
    "as English; at 10, the same text takes ten times as many steps and context positions.",
    empty="no tokenizer was measured on parallel English text",
)
def source_fragmentation(study: StudyResults, look: Look) -> "Figure | None":
    """A row per language, a marker per source model; English is at 1."""
    values = parities(study)
    if not values:
        return None
    languages, sources = study.order("language"), study.order("source")
    drawn, axis = draw_dots(study, languages, sources, values, reaching=1)
    axis.axvline(1, color=INK, lw=1.2, zorder=2)
    axis.annotate("English", (1, 1), xycoords=("data", "axes fraction"), xytext=(0, 2),
                  textcoords="offset points", ha="center", va="bottom", fontsize=7.5)  # fmt: skip
    text = "tokens of a translation per token of the English original"
    for source in sources:
        missing = [study.language(name) for name in languages if (source, name) not in values]
        if missing:
            text += "\n" + textwrap.fill(f"Not measured for {source}: {', '.join(missing)}.", 100)
    axis.set_xlabel(text)
    return drawn


def parities(study: StudyResults) -> dict[tuple[str, str], float]:
    """`(source, language)` -> tokens per token of English, with the source's own tokenizer.

    From the record of the vocabulary `source`, otherwise from the source tokenizer's numbers in the
    record of another vocabulary.
    """
    frame = study.fragmentation
    values: dict[tuple[str, str], float] = {}
    for of_source in (True, False):
        name = _PARITY if of_source else f"source_{_PARITY}"
        rows = frame[(frame["metric"] == name) & ((frame["vocabulary"] == "source") == of_source)]
        for row in rows.to_dict("records"):
            values.setdefault((row["source"], row["language"]), row["value"])
    return values
