"""Tests that are in the training text of models."""

from lexigraft.corpus.contamination import MOSTLY, PIECE
from lexigraft.report.items import Kind
from lexigraft.report.study import StudyResults
from lexigraft.report.table import Row, Table, number, number_cell
from lexigraft.report.tables.texts import contaminated

KIND = Kind(
    title="Contamination",
    caption="Test texts that occur in the training text of their language, wholly or mostly.",
    empty="no test set was searched for in the training text",
)
_HEADS = {
    "texts": ("tests", "texts"),
    "found": ("in the training text", "whole"),
    "mostly_found": ("in the training text", "mostly"),
    "training_sentences": ("training sentences", "containing one"),
}


def build(study: StudyResults) -> Table | None:
    """A row per language and set of tests; sets without texts are left out."""
    import pandas

    found = [one for one in contaminated(study) if one.counts["texts"]]
    if not found:
        return None
    rows = [
        Row(
            (study.language(one.language), one.tests),
            tuple(number_cell(one.counts[count], 0) for count in _HEADS),
        )
        for one in found
    ]
    data = [{"language": one.language, "tests": one.tests, **one.counts} for one in found]
    dropped = [
        f"{study.language(language)} {number(count, 0)}"
        for language, card in study.corpora.items()
        if (count := sum(card.get("kept_out_of_training", {}).values()))
    ]
    notes = [
        "Texts are compared by letters only, without case, digits, punctuation and spaces. Mostly: "
        f"at least {100 * MOSTLY:g} % of the text's sequences of {PIECE} letters.",
        "Sentences excluded from training because they resemble a test or held-out sentence: "
        f"{', '.join(dropped) or 'none'}.",
    ]
    heads = tuple(_HEADS.values())
    return Table(("Language", "Tests"), heads, rows, pandas.DataFrame(data), notes)
