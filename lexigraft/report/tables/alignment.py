"""How well initializers align two vocabularies (UnifyVocab, sections 2.2 and B.4)."""

from lexigraft.report.curves import sentences_scored, starts
from lexigraft.report.items import Kind
from lexigraft.report.metrics import metric
from lexigraft.report.models import models, vocabulary_stub, vocabulary_stub_names
from lexigraft.report.names import initializer_name
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import CELL, Frame, SummaryRow
from lexigraft.report.table import (
    MINUS,
    MISSING,
    Row,
    Table,
    number,
    number_cell,
    percent_cell,
    ranked,
)

KIND = Kind(
    title="Alignment of the vocabularies",
    caption="How much of a held-out text survives when each target token is renamed to the source "
    "token with the largest weight in its recipe, next to the initial training loss. "
    "Measured by BLEU, BLEU-1, similarity of meaning and the share of tokens covered.",
    empty="no alignment of a recipe was measured",
    reads=("alignment",),
)
# The metrics that UnifyVocab compares with the first step's loss (Figures 3b and 8), in its order.
QUALITY = ("bleu", "bleu_1", "semantic_similarity")
_COLUMNS = {
    "bleu": ("renamed text", "BLEU ↑"),
    "bleu_1": ("renamed text", "BLEU-1 ↑"),
    "semantic_similarity": ("renamed text", "similarity ↑"),
    "vocabulary_coverage": ("coverage", "vocabulary ↑"),
    "text_coverage": ("coverage", "text ↑"),
    "first_loss": ("training", "loss of the first step ↓"),
    "bits_per_byte_before": ("training", "held-out bits per byte before ↓"),
}


def build(study: StudyResults) -> Table | None:
    """One row per language, vocabulary and initializer; the best of each vocabulary is marked."""
    frame = alignments(study)
    if frame.empty:
        return None
    names = [name for name in _COLUMNS if name in frame and frame[name].notna().any()]
    rows = []
    for found in frame.to_dict("records"):
        key = (found["source"], found["language"], found["vocabulary"])
        left = vocabulary_stub(study, *key, initializer_name(found["initializer"]))
        cells = tuple(
            percent_cell(found[name])
            if name.endswith("coverage")
            else number_cell(found[name], metric(name).decimals)
            for name in names
        )
        rows.append(Row(left, cells, group="/".join(key)))
    rows = ranked(rows, [metric(name).lower_is_better for name in names])
    notes = [
        "Held-out text is tokenized with the target tokenizer, each token is renamed to the source "
        "token with the largest weight in its recipe, and the result is compared with the source "
        "tokenizer's own tokens; BLEU is from 0 to 100. Coverage: target tokens that copy a source "
        "token or that a rule of the method makes, in the vocabulary and in the text."
    ]
    if relations := _relations(study, frame) if "first_loss" in names else []:
        notes.append(
            f"Rank correlation with the first step's loss ({MINUS}1: the better aligned, the lower "
            f"the loss): {'; '.join(relations)}."
        )
    if "bits_per_byte_before" in names and (scored := sentences_scored(study, models(study))):
        notes.append(f"Held-out bits per byte before: on the {scored} scored in training logs.")
    notes.append(
        "Bold: best, underlined: second best of a vocabulary. Losses are per token and comparable "
        "within a vocabulary only."
    )
    if any(cell.value is None for row in rows for cell in row.cells):
        notes.append(f"{MISSING}: not measured.")
    stubs = vocabulary_stub_names(study, "Initializer")
    return Table(stubs, [_COLUMNS[name] for name in names], rows, frame, notes)


def alignments(study: StudyResults) -> Frame:
    """One row per source, language, vocabulary and initializer: metrics, and those of `starts`.

    Means over seeds; only initializers with a measured alignment.
    """
    frame = study.alignment[study.alignment["initializer"].isin(study.initializers)]
    if frame.empty:
        return frame
    wide = frame.pivot_table(index=CELL[:4], columns="metric", values="value", sort=False)
    wide.columns.name = None
    return wide.join(starts(study)).reset_index()


def rank_correlation(one: SummaryRow, other: SummaryRow) -> float | None:
    """Spearman's correlation over the rows that have both; None below three, or for a constant."""
    both = one.notna() & other.notna()
    if both.sum() < 3:
        return None
    found = one[both].rank().corr(other[both].rank())
    return float(found) if found == found else None


def _relations(study: StudyResults, frame: Frame) -> list[str]:
    """Notes on how quality correlates with the initial loss, within each vocabulary."""
    found = []
    for (source, language, vocabulary), group in frame.groupby(CELL[:3], sort=False):
        name = f"{study.language(language)} {vocabulary}"
        name += f" of {source}" if study.has_several_sources else ""
        shown = [
            f"{metric(measure).title} {number(value, 2)}"
            for measure in QUALITY
            if measure in group
            and (value := rank_correlation(group[measure], group["first_loss"])) is not None
        ]
        if shown:
            found.append(f"{name}: {', '.join(shown)}")
    return found
