"""How well initializers align two vocabularies (UnifyVocab, sections 2.2 and B.4)."""

from pandas import DataFrame, Series

from lexigraft.report.frame import CELL, StudyResults, select
from lexigraft.report.heldout import sentences_scored
from lexigraft.report.items import table
from lexigraft.report.models import models, vocabulary_stub
from lexigraft.report.names import metric
from lexigraft.report.table import Shown, Table, frame_table

# The metrics that UnifyVocab compares with the first step's loss (Figures 3b and 8), in its order.
QUALITY = ("bleu", "bleu_1", "semantic_similarity")
_COLUMNS = {
    name: Shown(
        (group, heading),
        None if group == "coverage" else metric(name).decimals,
        metric(name).higher_is_better,
    )
    for name, group, heading in (
        ("bleu", "renamed text", "BLEU ↑"),
        ("bleu_1", "renamed text", "BLEU-1 ↑"),
        ("semantic_similarity", "renamed text", "similarity ↑"),
        ("vocabulary_coverage", "coverage", "vocabulary ↑"),
        ("text_coverage", "coverage", "text ↑"),
        ("first_loss", "training", "loss of the first step ↓"),
        ("bits_per_byte_before", "training", "held-out bits per byte before ↓"),
    )
}


@table(
    title="Alignment of the vocabularies",
    caption="How much of a held-out text survives when each target token is renamed to the source "
    "token with the largest weight in its recipe, next to the initial training loss. "
    "Measured by BLEU, BLEU-1, similarity of meaning and the share of tokens covered.",
    empty="no alignment of a recipe was measured",
    reads=("alignment",),
)
def alignment(study: StudyResults) -> Table | None:
    """One row per language, vocabulary and initializer; the best of each vocabulary is marked."""
    frame = alignments(study)
    if frame.empty:
        return None
    scored = sentences_scored(study, models(study))
    notes = [
        "Held-out text is tokenized with the target tokenizer, each token is renamed to the source "
        "token with the largest weight in its recipe, and the result is compared with the source "
        "tokenizer's own tokens; BLEU is from 0 to 100. Coverage: target tokens that copy a source "
        "token or that a rule of the method makes, in the vocabulary and in the text. Held-out "
        f"bits per byte before: on the {scored or 'sentences'} scored in training logs. Losses are "
        "per token and comparable within a vocabulary only, where the best is bold."
    ]
    return frame_table(
        frame,
        _COLUMNS,
        *vocabulary_stub(study, initializers=True),
        notes,
        group=lambda row: "/".join(row[axis] for axis in CELL[:3]),
    )


def alignments(study: StudyResults) -> DataFrame:
    """One row per source, language, vocabulary and initializer with a measured alignment.

    Columns: its metrics, and `first_loss` and `bits_per_byte_before` under the reference strategy,
    as means over seeds.
    """
    frame = study.alignment[study.alignment["initializer"].isin(study.initializers)]
    if frame.empty:
        return frame
    strategy = study.reference_strategy or "none"
    scores = select(study.with_card_scores().scores, task="training", strategy=strategy)
    starts = scores[scores["metric"].isin(["first_loss", "bits_per_byte_before"])]
    wide, before = (
        numbers.pivot_table(index=CELL[:4], columns="metric", values="value", sort=False)
        for numbers in (frame, starts)
    )
    before = before.reindex(columns=["first_loss", "bits_per_byte_before"])
    return wide.join(before).rename_axis(columns=None).reset_index()


def rank_correlation(first: Series, second: Series) -> float | None:
    """Spearman's correlation over the rows that have both; None below three, or for a constant."""
    both = first.notna() & second.notna()
    if both.sum() < 3:
        return None
    correlation = first[both].rank().corr(second[both].rank())
    return float(correlation) if correlation == correlation else None
