"""Tests that are in the training text of models."""

from pandas import DataFrame

from lexigraft.corpus.contamination import MOSTLY, PIECE
from lexigraft.report.frame import ContaminatedTests, StudyResults
from lexigraft.report.items import table
from lexigraft.report.table import Shown, Table, frame_table, number

_COLUMNS = {
    "texts": Shown(("tests", "texts"), 0),
    "found": Shown(("in the training text", "whole"), 0),
    "mostly_found": Shown(("in the training text", "mostly"), 0),
    "training_sentences": Shown(("training sentences", "containing one"), 0),
}


@table(
    title="Contamination",
    caption="Test texts that occur in the training text of their language, wholly or mostly.",
    empty="no test set was searched for in the training text",
)
def contamination(study: StudyResults) -> Table | None:
    """A row per language and set of tests; sets without texts are left out."""
    searched = [tests for tests in contaminated(study) if tests.counts["texts"]]
    if not searched:
        return None
    data = DataFrame(
        [{"language": tests.language, "tests": tests.tests, **tests.counts} for tests in searched]
    )
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
    return frame_table(
        data,
        _COLUMNS,
        ("Language", "Tests"),
        lambda row: (study.language(row["language"]), row["tests"]),
        notes,
    )


def contaminated(study: StudyResults) -> list[ContaminatedTests]:
    """Every set of tests that was searched for, by language: the corpus's own, then those of tasks.

    A set that both a language and a task list has two rows.
    """
    of_corpora = [
        ContaminatedTests(language, tests, counts)
        for language, card in study.corpora.items()
        for tests, counts in card.get("contamination", {}).items()
    ]
    every = of_corpora + study.contamination
    order = list(dict.fromkeys(tests.language for tests in every))
    return sorted(every, key=lambda tests: order.index(tests.language))
