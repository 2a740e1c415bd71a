"""The changes over Source that a table prints: which of them would hold on other examples."""

from typing import TYPE_CHECKING

from lexigraft.report.metrics import metric
from lexigraft.report.paired_tests import Column
from lexigraft.report.score_differences import ScoreDifference, score_differences
from lexigraft.report.study import Study
from lexigraft.report.tables.models import Model, find
from lexigraft.report.tables.notes import bootstrap_notes
from lexigraft.report.tables.tested import Tested

if TYPE_CHECKING:
    import pandas


class Changes(Tested[ScoreDifference]):
    """Tests of a table's changes over Source."""

    def numbers(self, one: ScoreDifference) -> dict[str, float | int]:
        """Interval, p and effect size of a change."""
        return change_numbers(one)

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


def change_numbers(one: ScoreDifference) -> dict[str, float | int]:
    """Interval, p and effect size of a change, as columns of a CSV file."""
    return one.columns("change", "seed_freedom")


def changes_over_source(
    study: Study, summary: "pandas.DataFrame", models: list[Model], columns: list[Column]
) -> Changes:
    """Compare each model with its source model, all of a table's together."""
    sources = {model.source: model for model in models if model.is_source}
    changed = [model for model in models if model.source in sources and not model.is_source]
    compared = score_differences(
        study,
        [(model, sources[model.source], column) for column in columns for model in changed],
    )
    printed = [
        column for column in columns if any(_has_change(summary, m, column) for m in changed)
    ]
    return Changes({(one.model, one.column): one for one in compared}, tuple(printed))


def _has_change(summary: "pandas.DataFrame", model: Model, column: Column) -> bool:
    language, task, name = column
    found = find(summary, model, language=language, task=task, metric=name)
    return found is not None and bool(found["change"] == found["change"])
