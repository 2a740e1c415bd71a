"""The tests behind a table's stars: of its changes over Source, and of its speed-ups."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lexigraft.report.metrics import metric
from lexigraft.report.models import Model, find
from lexigraft.report.paired_tests import Column
from lexigraft.report.score_differences import ScoreDifference, score_differences
from lexigraft.report.speed_up import speed_up_tests
from lexigraft.report.study import StudyResults
from lexigraft.report.table import TableCell
from lexigraft.report.table_notes import bootstrap_notes, stars_note

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class TableTests:
    """Tests of what a table shows.

    Attributes
    ----------
    stars, numbers
        Of each model and column that was tested: its stars, and what the CSV file has of the test.
    notes
        How the tests were made, and what could not be tested.
    """

    stars: dict[tuple[Model, Column], str]
    numbers: dict[tuple[Model, Column], dict[str, float | int]]
    notes: list[str]

    def starred(self, cell: TableCell, model: Model, column: Column) -> TableCell:
        """The cell with its stars, where what it shows was tested."""
        stars = self.stars.get((model, column), "")
        return replace(cell, stars=stars) if stars and cell.value is not None else cell

    def beside(self, data: "pandas.DataFrame") -> "pandas.DataFrame":
        """The table's data with the numbers of each test."""
        import pandas

        if not self.numbers:
            return data
        rows = [
            model.keys() | {"language": language, "task": task, "metric": name} | numbers
            for (model, (language, task, name)), numbers in self.numbers.items()
        ]
        keys = [*next(iter(self.numbers))[0].keys(), "language", "task", "metric"]
        return data.merge(pandas.DataFrame(rows), on=keys, how="left")


def changes_over_source(
    study: StudyResults, summary: "pandas.DataFrame", models: list[Model], columns: list[Column]
) -> TableTests:
    """Compare each model with its source model, all of a table's together."""
    sources = {model.source: model for model in models if model.is_source}
    changed = [model for model in models if model.source in sources and not model.is_source]
    compared = score_differences(
        study,
        [(model, sources[model.source], column) for column in columns for model in changed],
    )
    have = {one.column for one in compared}
    lost = dict.fromkeys(
        f"{task} ({metric(name).title})"
        for language, task, name in columns
        if (language, task, name) not in have
        and any(_has_change(summary, model, (language, task, name)) for model in changed)
    )
    notes = bootstrap_notes(compared, "changes over Source")
    if lost:
        notes.append(
            "Changes not tested, because the outputs of both models on each example are needed: "
            f"{', '.join(lost)}."
        )
    return TableTests(
        {(one.model, one.column): one.stars for one in compared},
        {(one.model, one.column): change_numbers(one) for one in compared},
        notes,
    )


def change_numbers(one: ScoreDifference) -> dict[str, float | int]:
    """Interval, p and effect size of a change, as columns of a CSV file."""
    return one.columns("change", "seed_freedom")


def speed_tests(
    study: StudyResults, models: Sequence[Model], columns: Iterable[Column]
) -> TableTests:
    """Test the speed-ups of each model that a table shows, all of them together."""
    shown = tuple(dict.fromkeys(columns))
    tests = speed_up_tests(study, models, shown)
    known = [one for one in tests.values() if one.freedom]
    notes = []
    if known:
        notes.append(
            stars_note(
                "the sentences of the text",
                len(known),
                "speed-ups",
                "; variation between measurements is drawn with the deviation between models of "
                "one vocabulary, which do the same work;",
            )
        )
    if len(known) < len(tests):
        which = "Speed-ups" if not known else f"{len(tests) - len(known)} speed-ups"
        notes.append(
            f"{which} without a test: each vocabulary was measured once, so nothing shows how "
            "measurements vary. Their intervals in the CSV file cover other sentences and the "
            "repeats of one measurement only."
        )
    have = {column for _, column in tests}
    lost = dict.fromkeys(column[1] for column in shown if column not in have)
    if lost:
        notes.append(
            "Speed-ups not tested, because the time of each repeat and the tokens of each "
            f"sentence are needed: {', '.join(lost)}."
        )
    return TableTests(
        {key: one.stars for key, one in tests.items()},
        {key: one.columns("speed_up", "measurement_freedom") for key, one in tests.items()},
        notes,
    )


def _has_change(summary: "pandas.DataFrame", model: Model, column: Column) -> bool:
    language, task, name = column
    found = find(summary, model, language=language, task=task, metric=name)
    return found is not None and bool(found["change"] == found["change"])
