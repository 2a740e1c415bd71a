"""How well initializers align two vocabularies, beside what training then starts from."""

from typing import TYPE_CHECKING

from lexigraft.report.curves import starts
from lexigraft.report.study import Study
from lexigraft.report.summarize import CELL

if TYPE_CHECKING:
    import pandas

# What paper 003 compares with the first step's loss (Figures 3b and 8), in its order.
QUALITY = ("bleu", "bleu_1", "semantic_similarity")


def alignments(study: Study) -> "pandas.DataFrame":
    """One row per source, language, vocabulary and initializer: metrics, and what `starts` gives.

    Means over seeds; only initializers whose alignment was measured.
    """
    frame = study.alignment[study.alignment["initializer"].isin(study.initializers)]
    if frame.empty:
        return frame
    wide = frame.pivot_table(index=CELL[:4], columns="metric", values="value", sort=False)
    wide.columns.name = None
    return wide.join(starts(study)).reset_index()


def rank_correlation(one: "pandas.Series", other: "pandas.Series") -> float | None:
    """Spearman's correlation over the rows that have both; None below three, or of a constant."""
    both = one.notna() & other.notna()
    if both.sum() < 3:
        return None
    found = one[both].rank().corr(other[both].rank())
    return float(found) if found == found else None
