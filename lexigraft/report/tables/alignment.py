"""How well initializers align two vocabularies (UnifyVocab, sections 2.2 and B.4)."""

from typing import TYPE_CHECKING

from lexigraft.report.curves import starts
from lexigraft.report.items import Kind
from lexigraft.report.metrics import metric
from lexigraft.report.models import vocabulary_stub, vocabulary_stub_names
from lexigraft.report.names import initializer_name
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import CELL
from lexigraft.report.table import (
    MINUS,
    MISSING,
    Row,
    Table,
    TableCell,
    number,
    number_cell,
    percent_cell,
    ranked,
)

if TYPE_CHECKING:
    import pandas

KIND = Kind(
    title="Alignment of the vocabularies",
    caption="How much of a held-out text survives when each target token is renamed to the source "
    "token with the largest weight in its recipe, beside the loss that training starts from. "
    "Measured by BLEU, BLEU-1, similarity of meaning and the share of tokens covered.",
    empty="no alignment of a recipe was measured",
    reads=("alignment",),
)
# What UnifyVocab compares with the first step's loss (Figures 3b and 8), in its order.
QUALITY = ("bleu", "bleu_1", "semantic_similarity")
_COLUMNS = {
    "bleu": ("text renamed", "BLEU ↑"),
    "bleu_1": ("text renamed", "BLEU-1 ↑"),
    "semantic_similarity": ("text renamed", "similarity ↑"),
    "vocabulary_coverage": ("coverage", "vocabulary ↑"),
    "text_coverage": ("coverage", "text ↑"),
    "first_loss": ("training", "loss of the first step ↓"),
    "bits_per_byte_before": ("training", "held-out bits per byte before ↓"),
}


def build(study: StudyResults, summary: "pandas.DataFrame") -> Table | None:
    """One row per language, vocabulary and initializer; the best of each vocabulary is marked."""
    frame = alignments(study)
    if frame.empty:
        return None
    names = [name for name in _COLUMNS if name in frame and frame[name].notna().any()]
    rows = []
    for found in frame.to_dict("records"):
        key = (found["source"], found["language"], found["vocabulary"])
        left = vocabulary_stub(study, *key, initializer_name(found["initializer"]))
        cells = tuple(_cell(name, found[name]) for name in names)
        rows.append(Row(left, cells, group="/".join(key)))
    rows = ranked(rows, [metric(name).lower_is_better for name in names])
    notes = [
        "Held-out text is cut by the target tokenizer, each token renamed to the source token with "
        "the largest weight in its recipe, and compared with the source's own tokens: BLEU on the "
        "scale 0 to 100. Coverage: target tokens that copy a source token or that a rule of the "
        "method makes, in the vocabulary and in the text.",
        *_relation(study, frame, names),
        "Bold: best, underlined: second of a vocabulary. Losses are per token and compare within a "
        "vocabulary only.",
    ]
    if any(cell.value is None for row in rows for cell in row.cells):
        notes.append(f"{MISSING}: not measured.")
    stubs = vocabulary_stub_names(study, "Initializer")
    return Table(stubs, [_COLUMNS[name] for name in names], rows, frame, notes)


def alignments(study: StudyResults) -> "pandas.DataFrame":
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


def _relation(study: StudyResults, frame: "pandas.DataFrame", names: list[str]) -> list[str]:
    """How quality goes with the loss that training starts from, within each vocabulary."""
    if "first_loss" not in names:
        return []
    parts = []
    for key, group in frame.groupby(CELL[:3], sort=False):
        source, language, vocabulary = key
        name = f"{study.language(language)} {vocabulary}"
        name += f" of {source}" if study.has_several_sources else ""
        found = {
            measure: rank_correlation(group[measure], group["first_loss"])
            for measure in QUALITY
            if measure in names
        }
        shown = [f"{metric(measure).title} {number(value, 2)}"
                 for measure, value in found.items() if value is not None]  # fmt: skip
        if shown:
            parts.append(f"{name}: {', '.join(shown)}")
    if not parts:
        return []
    return [f"Rank correlation with the first step's loss ({MINUS}1: the better aligned, the lower "
            f"the loss): {'; '.join(parts)}."]  # fmt: skip


def _cell(name: str, value: float) -> TableCell:
    if name.endswith("coverage"):
        return percent_cell(value)
    return number_cell(value, metric(name).decimals)
