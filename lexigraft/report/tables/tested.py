"""Differences that a table prints and that were tested: their stars, and their numbers."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from lexigraft.report.paired_tests import Column, PairedTest
from lexigraft.report.tables.models import Model
from lexigraft.report.tables.table import Cell

if TYPE_CHECKING:
    import pandas

Test = TypeVar("Test", bound=PairedTest)


@dataclass(frozen=True)
class Tested(ABC, Generic[Test]):
    """Tests of what a table prints, by model and column, and the columns that print something."""

    tested: dict[tuple[Model, Column], Test]
    columns: tuple[Column, ...]

    @abstractmethod
    def numbers(self, one: Test) -> dict[str, float | int]:
        """What a CSV file has of a test beside what it tests."""

    def starred(self, cell: Cell, model: Model, column: Column) -> Cell:
        """The cell with its stars, where what it shows was tested."""
        one = self.tested.get((model, column))
        return replace(cell, stars=one.stars) if one and cell.value is not None else cell

    def beside(self, data: "pandas.DataFrame") -> "pandas.DataFrame":
        """The table's data with the numbers of each test."""
        import pandas

        if not self.tested:
            return data
        keys = [
            model.keys() | {"language": language, "task": task, "metric": name}
            for model, (language, task, name) in self.tested
        ]
        numbers = map(self.numbers, self.tested.values())
        rows = [key | found for key, found in zip(keys, numbers, strict=True)]
        return data.merge(pandas.DataFrame(rows), on=list(keys[0]), how="left")
