"""How well initializers align two vocabularies (paper 003, sections 2.2 and B.4)."""

from typing import TYPE_CHECKING

from lexigraft.report.aligned import QUALITY, alignments, rank_correlation
from lexigraft.report.metrics import metric
from lexigraft.report.names import initializer_name
from lexigraft.report.study import Study
from lexigraft.report.tables.table import (
    MINUS,
    MISSING,
    Cell,
    Row,
    Table,
    is_compact,
    number,
    ranked,
)

if TYPE_CHECKING:
    import pandas

_COLUMNS = {
    "bleu": ("text renamed", "BLEU ↑"),
    "bleu_1": ("text renamed", "BLEU-1 ↑"),
    "semantic_similarity": ("text renamed", "similarity ↑"),
    "vocabulary_coverage": ("coverage", "vocabulary ↑"),
    "text_coverage": ("coverage", "text ↑"),
    "first_loss": ("training", "loss of the first step ↓"),
    "bits_per_byte_before": ("training", "held-out bits per byte before ↓"),
}


def build(study: Study, summary: "pandas.DataFrame") -> Table | None:
    """One row per language, vocabulary and initializer; the best of each vocabulary is marked."""
    frame = alignments(study)
    if frame.empty:
        return None
    names = [name for name in _COLUMNS if name in frame and frame[name].notna().any()]
    several = len(study.order("source")) > 1
    stubs = (*(("Source model",) if several else ()), "Language", "Vocabulary", "Initializer")
    rows = []
    for found in frame.to_dict("records"):
        key = (found["source"], found["language"], found["vocabulary"])
        left = (study.language(key[1]), key[2], initializer_name(found["initializer"]))
        cells = tuple(_cell(name, found[name]) for name in names)
        rows.append(Row((key[0], *left) if several else left, cells, group="/".join(key)))
    rows = ranked(rows, [metric(name).lower_is_better for name in names])
    heads = tuple(_COLUMNS[name] for name in names)
    notes = [
        "Held-out text is cut by the target tokenizer, each token renamed to the source token that "
        "its recipe leans on most, and compared with the source's own tokens: BLEU on the scale 0 "
        "to 100. Coverage: target tokens that copy a source token or that a rule of the method "
        "makes, in the vocabulary and in the text.",
        *_relation(study, frame, names),
        "Bold: best, underlined: second of a vocabulary. Losses are per token and compare within a "
        "vocabulary only.",
    ]
    if any(cell.value is None for row in rows for cell in row.cells):
        notes.append(f"{MISSING}: not measured.")
    return Table("alignment", "Alignment of the vocabularies", stubs, heads, tuple(rows), frame,
                 tuple(notes), is_compact(len(heads), len(stubs)))  # fmt: skip


def _relation(study: Study, frame: "pandas.DataFrame", names: list[str]) -> list[str]:
    """How quality goes with the loss that training starts from, within each vocabulary."""
    if "first_loss" not in names:
        return []
    parts = []
    for key, group in frame.groupby(["source", "language", "vocabulary"], sort=False):
        source, language, vocabulary = key
        several = len(study.order("source")) > 1
        name = f"{study.language(language)} {vocabulary}" + (f" of {source}" if several else "")
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


def _cell(name: str, value: float) -> Cell:
    if value != value:
        return Cell()
    if name.endswith("coverage"):
        return Cell(f"{number(100 * value, 1)} %", value=float(value))
    return Cell(number(value, metric(name).decimals), value=float(value))
