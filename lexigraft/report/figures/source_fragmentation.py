"""Tokens of each source tokenizer per token of English (Yamaguchi et al., Figure 3)."""

from lexigraft.report.drawing import INK, Figure, Look
from lexigraft.report.figures.tokens_per_sentence import draw_dots
from lexigraft.report.frame import StudyResults
from lexigraft.report.items import figure

_PARITY = "english_parity"


@figure(
    title="Tokens per token of English",
    caption="Tokens that each source model's own tokenizer needs for a translation, per token of "
    "the English original. Measured on the parallel sentences of each language. 1 is as short "
    "as English; at 10, the same text takes ten times as many steps and context positions.",
    empty="no tokenizer was measured on parallel English text",
)
def source_fragmentation(study: StudyResults, look: Look) -> Figure | None:
    """A row per language, a marker per source model; English is at 1."""
    values = parities(study)
    if not values:
        return None
    drawn, axis = draw_dots(study, study.order("language"), study.order("source"), values)
    axis.axvline(1, color=INK, lw=1.2, zorder=2)
    axis.set_xlabel("tokens of a translation per token of the English original (line)")
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
