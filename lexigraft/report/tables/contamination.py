"""What of the tests is in the text that models were trained on."""

from typing import TYPE_CHECKING, Any

from lexigraft.report.study import Study
from lexigraft.report.tables.table import Cell, Row, Table, number
from lexigraft.report.texts import contaminated

if TYPE_CHECKING:
    import pandas

_HEADS = {
    "texts": ("tests", "texts"),
    "found": ("in the training text", "whole"),
    "mostly_found": ("in the training text", "mostly"),
    "training_sentences": ("training sentences", "that hold one"),
}


def build(study: Study, summary: "pandas.DataFrame") -> Table | None:
    """A row per language and set of tests; sets without texts are left out."""
    import pandas

    found: list[dict[str, Any]] = [
        {"language": one.language, "tests": one.tests, **one.counts}
        for one in contaminated(study)
        if one.counts["texts"]
    ]
    if not found:
        return None
    rows = [
        Row(
            (study.language(row["language"]), row["tests"]),
            tuple(Cell(number(row[count], 0), value=float(row[count])) for count in _HEADS),
        )
        for row in found
    ]
    dropped = [
        f"{study.language(language)} {number(count, 0)}"
        for language, card in study.corpora.items()
        if (count := sum(card.get("kept_out_of_training", {}).values()))
    ]
    notes = [
        "By letters alone: case, digits, punctuation and spaces make no text another. Mostly: "
        "seven tenths of its runs of 50 letters.",
        f"Sentences kept out of training for being like a test or a held-out one: "
        f"{', '.join(dropped) or 'none'}.",
    ]
    data = pandas.DataFrame(found)
    heads = tuple(_HEADS.values())
    stubs = ("Language", "Tests")
    return Table("contamination", "Contamination", stubs, heads, tuple(rows), data, tuple(notes))
