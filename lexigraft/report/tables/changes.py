"""The changes over Source that a table prints: which of them would hold on other examples."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lexigraft.report.metrics import metric
from lexigraft.report.significance import Column, Compared, differences
from lexigraft.report.study import Study
from lexigraft.report.tables.models import Model
from lexigraft.report.tables.notes import bootstrap_notes
from lexigraft.report.tables.table import Cell

if TYPE_CHECKING:
    import pandas

# What a CSV file calls the numbers of a test, beside the change that it tests.
TEST_COLUMNS = {
    "low": "change_low",
    "high": "change_high",
    "p": "p",
    "p_corrected": "p_corrected",
    "effect_size": "effect_size",
    "examples": "tested_examples",
    "seed_freedom": "seed_freedom",
}


@dataclass(frozen=True)
class Changes:
    """Tests of a table's changes over Source, by model and column."""

    tested: dict[tuple[Model, Column], Compared]
    columns: tuple[Column, ...]

    def starred(self, cell: Cell, model: Model, column: Column) -> Cell:
        """The cell with its stars, where there is a change that was tested."""
        one = self.tested.get((model, column))
        return replace(cell, stars=one.stars) if one and cell.value is not None else cell

    def notes(self) -> list[str]:
        """How the changes were tested, and which could not be."""
        notes = bootstrap_notes(list(self.tested.values()), "changes over Source")
        have = {column for _, column in self.tested}
        lost = dict.fromkeys(
            f"{task} ({metric(name).title})"
            for language, task, name in self.columns
            if (language, task, name) not in have
        )
        if lost:
            notes.append(
                "Changes not tested, for that takes what both models wrote, example by example: "
                f"{', '.join(lost)}."
            )
        return notes

    def beside(self, data: "pandas.DataFrame") -> "pandas.DataFrame":
        """The table's data with the interval, p and effect size of each change."""
        import pandas

        if not self.tested:
            return data
        rows = []
        for (model, (language, task, name)), one in self.tested.items():
            numbers = one.numbers()
            rows.append(
                model.keys()
                | {"language": language, "task": task, "metric": name}
                | {ours: numbers[theirs] for theirs, ours in TEST_COLUMNS.items()}
            )
        tests = pandas.DataFrame(rows)
        keys = [name for name in tests.columns if name not in TEST_COLUMNS.values()]
        return data.merge(tests, on=keys, how="left")


def changes_over_source(study: Study, models: list[Model], columns: list[Column]) -> Changes:
    """Compare each model with its source model, all of a table's together."""
    sources = {model.source: model for model in models if model.is_source}
    compared = differences(
        study,
        [
            (model, sources[model.source], column)
            for column in columns
            for model in models
            if model.source in sources and not model.is_source
        ],
    )
    return Changes({(one.model, one.column): one for one in compared}, tuple(columns))
