"""The tests behind a table's stars: of its changes from Source, and of its speed-ups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas

from lexigraft.report.metrics import metric
from lexigraft.report.models import AXES, COLUMN, Column, Model, find
from lexigraft.report.paired_tests import RESAMPLES, PairedTest
from lexigraft.report.score_differences import ScoreDifference, score_differences
from lexigraft.report.speed_up import speed_up_tests
from lexigraft.report.study import StudyResults
from lexigraft.report.table import TableCell


@dataclass(frozen=True)
class TableTests:
    """Tests of the numbers in a table, by model and column, and notes on them.

    `names` are the names of the tested quantity and its degrees of freedom in the CSV file.
    """

    tests: Mapping[tuple[Model, Column], PairedTest]
    names: tuple[str, str]
    notes: list[str]

    def starred(self, cell: TableCell, model: Model, column: Column) -> TableCell:
        """The cell with its stars, if it was tested."""
        test = self.tests.get((model, column))
        return replace(cell, stars=test.stars) if test and cell.value is not None else cell

    def beside(self, data: pandas.DataFrame) -> pandas.DataFrame:
        """The table's data with the numbers of each test."""
        if not self.tests:
            return data
        rows = [
            model.keys() | dict(zip(COLUMN, column, strict=True)) | test.columns(*self.names)
            for (model, column), test in self.tests.items()
        ]
        return data.merge(pandas.DataFrame(rows), on=[*AXES, *COLUMN], how="left")


def changes_over_source(
    study: StudyResults, models: list[Model], columns: list[Column]
) -> TableTests:
    """Test each model against its source model, corrected over the table; without noise."""
    sources = {model.source: model for model in models if model.is_source}
    changed = [
        (model, sources[model.source], column)
        for column in columns
        for model in models
        if model.source in sources and not model.is_source
        and not study.is_noise(model.source, column)
    ]  # fmt: skip
    compared = score_differences(study, changed)
    have = {one.column for one in compared}
    rows = [(column, find(study, model, *column))
            for model, _, column in changed if column not in have]  # fmt: skip
    untested = (
        f"{task} ({metric(name).title})"
        for (_, task, name), found in rows
        if found is not None and found["change"] == found["change"]
    )
    notes = [
        *bootstrap_notes(compared, "changes over Source"),
        *untested_note("Changes", "the outputs of both models on each example", untested),
    ]
    tests = {(one.model, one.column): one for one in compared}
    return TableTests(tests, ("change", "seed_freedom"), notes)


def speed_tests(
    study: StudyResults, models: Sequence[Model], columns: Iterable[Column]
) -> TableTests:
    """Test the speed-ups of each model in a table, corrected for each other."""
    shown = tuple(dict.fromkeys(columns))
    tests = speed_up_tests(study, models, shown)
    known = sum(one.freedom > 0 for one in tests.values())
    notes = []
    if known:
        varied = (
            "; variation between measurements is estimated from the models of one vocabulary, "
            "which do the same work;"
        )
        notes.append(stars_note("the sentences of the text", known, "speed-ups", varied))
    if known < len(tests):
        which = f"{len(tests) - known} speed-ups" if known else "Speed-ups"
        notes.append(
            f"{which} not tested: each vocabulary was measured once, so the variation between "
            "measurements is unknown. The intervals in the CSV file cover other sentences and the "
            "repeats of one measurement only."
        )
    have = {column for _, column in tests}
    untested = (column[1] for column in shown if column not in have)
    needed = "the time of each repeat and the tokens of each sentence"
    notes += untested_note("Speed-ups", needed, untested)
    return TableTests(tests, ("speed_up", "measurement_freedom"), notes)


def stars_note(drawn: str, tested: int, what: str, more: str = ",") -> str:
    """What the stars of a table mean: the bootstrap draws `drawn`, `tested` differences together.

    `what` they are, such as `changes over Source`; `more` is inserted, with its punctuation, after
    the number of resamples.
    """
    note = f"* p < 0.05, ** p < 0.01: paired bootstrap over {drawn}, {RESAMPLES:,} resamples{more}"
    if tested == 1:
        return f"{note.rstrip(',;')}."
    return f"{note} p corrected for the {tested} {what} in this table (Benjamini-Hochberg)."


def bootstrap_notes(compared: Sequence[ScoreDifference], what: str) -> list[str]:
    """Notes on the stars of a table; `what` was compared, such as `differences to Source`."""
    if not compared:
        return []
    notes = [stars_note("test examples and seeds", len(compared), what)]
    alone = [one for one in compared if not one.freedom and one.model.strategy != "none"]
    if alone:
        which = "In this table" if len(alone) == len(compared) else f"In {len(alone)} of them"
        notes.append(
            f"{which} no model has several seeds: the test covers other examples only, not "
            "training with other seeds."
        )
    return notes


def untested_note(what: str, needed: str, names: Iterable[str]) -> list[str]:
    """A note on the numbers of a table that could not be tested."""
    listed = ", ".join(dict.fromkeys(names))
    return [f"{what} not tested, because {needed} are needed: {listed}."] if listed else []
