"""The speed-ups that a table prints: which would hold on other text and if measured again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lexigraft.report.significance import RESAMPLES, Column
from lexigraft.report.speed_up import SpeedUp, speed_ups_tested
from lexigraft.report.study import Study
from lexigraft.report.tables.models import Model
from lexigraft.report.tables.table import Cell

if TYPE_CHECKING:
    import pandas

# What a CSV file calls the numbers of a test, beside the speed-up that it tests.
_COLUMNS = {
    "low": "speed_up_low",
    "high": "speed_up_high",
    "p": "p",
    "corrected": "p_corrected",
    "effect": "effect_size",
    "sentences": "tested_examples",
    "freedom": "measurement_freedom",
}


@dataclass(frozen=True)
class SpeedTests:
    """Tests of a table's speed-ups, by model and column."""

    tested: dict[tuple[Model, Column], SpeedUp]
    columns: tuple[Column, ...]

    def starred(self, cell: Cell, model: Model, column: Column) -> Cell:
        """The cell with its stars, where there is a speed-up that was tested."""
        one = self.tested.get((model, column))
        return replace(cell, stars=one.stars) if one and cell.value is not None else cell

    def notes(self) -> list[str]:
        """How the speed-ups were tested, and which could not be."""
        every = list(self.tested.values())
        known = [one for one in every if one.freedom]
        notes = []
        if known:
            several = f"{len(known)} speed-ups" if len(known) > 1 else "one speed-up"
            notes.append(
                f"* p < 0.05, ** p < 0.01: paired bootstrap over the sentences of the text, "
                f"{RESAMPLES:,} resamples; what measuring again would change is drawn with the "
                "deviation between models of one vocabulary, which do the same work; p corrected "
                f"for being one of {several} in this table (Benjamini-Hochberg)."
            )
        if len(known) < len(every):
            which = "Speed-ups" if not known else f"{len(every) - len(known)} speed-ups"
            notes.append(
                f"{which} without a test, where each vocabulary was measured once: too little to "
                "tell how measurements differ. Their intervals, in the CSV file, are of other "
                "sentences and of the repeats of one measurement alone."
            )
        have = {column for _, column in self.tested}
        lost = dict.fromkeys(column[1] for column in self.columns if column not in have)
        if lost:
            notes.append(
                "Speed-ups not tested, for that takes the time of each repeat and the tokens of "
                f"each sentence of the text: {', '.join(lost)}."
            )
        return notes

    def beside(self, data: "pandas.DataFrame") -> "pandas.DataFrame":
        """The table's data with the interval, p and effect size of each speed-up."""
        import pandas

        if not self.tested:
            return data
        rows = [
            model.keys()
            | {"language": language, "task": task, "metric": name}
            | {ours: getattr(one, theirs) for theirs, ours in _COLUMNS.items()}
            for (model, (language, task, name)), one in self.tested.items()
        ]
        tests = pandas.DataFrame(rows)
        keys = [name for name in tests.columns if name not in _COLUMNS.values()]
        return data.merge(tests, on=keys, how="left")


def speed_tests(study: Study, models: Sequence[Model], columns: Iterable[Column]) -> SpeedTests:
    """Test the speed-ups of each model that a table shows, all of them together."""
    shown = tuple(dict.fromkeys(columns))
    tested = speed_ups_tested(study, models, shown)
    return SpeedTests({(one.model, one.column): one for one in tested}, shown)
