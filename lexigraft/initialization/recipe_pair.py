"""A recipe for each matrix, for methods that learn input and output rows separately."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from lexigraft.errors import UserError
from lexigraft.initialization.matrix import Matrix
from lexigraft.initialization.recipe import Recipe, read_arrays, write_arrays


@dataclass(frozen=True)
class RecipePair:
    """The recipes of both matrices; a tied model has one matrix, which takes `input`.

    Attributes
    ----------
    input, output
        Recipes of the same shape that copy the same rows.
    """

    input: Recipe
    output: Recipe

    @property
    def n_target(self) -> int:
        """Rows of the matrices that these recipes make."""
        return self.input.n_target

    @property
    def n_source(self) -> int:
        """Rows of the matrices that these recipes take."""
        return self.input.n_source

    @property
    def new_ids(self) -> np.ndarray:
        """Ids of the new tokens, ascending."""
        return self.input.new_ids

    @property
    def source_of(self) -> np.ndarray:
        """[n_target]: the source row that each target row copies, -1 for new tokens."""
        return self.input.source_of

    @property
    def weights(self) -> dict[str, csr_array]:
        """`W` of both in full, each [n_target, n_source], by `"input"` and `"output"`."""
        return {"input": self.input.weights, "output": self.output.weights}

    def recipe(self, which: str) -> Recipe:
        """The recipe of one matrix.

        Raises
        ------
        UserError
            `which` is neither `"input"` nor `"output"`.
        """
        if which not in ("input", "output"):
            raise UserError(f"matrix '{which}': there are recipes for 'input' and 'output' only")
        return self.input if which == "input" else self.output

    def apply(self, matrix: Matrix, which: str = "input") -> Matrix:
        """Make one target matrix by its own recipe, see `Recipe.apply`."""
        return self.recipe(which).apply(matrix, which)

    def new_rows(self, matrix: Matrix, which: str) -> Iterator[tuple[slice, np.ndarray]]:
        """The new rows [len(new_ids), width] of one matrix, a block of columns at a time."""
        return self.recipe(which).new_rows(matrix, which)

    def save(self, path: str | Path) -> None:
        """Write both as one compressed `.npz` of plain arrays; same recipes, same bytes."""
        arrays: dict[str, np.ndarray] = {}
        for which in ("input", "output"):
            found = self.recipe(which).arrays()
            arrays |= {f"{which}_{name}": array for name, array in found.items()}
        write_arrays(arrays, path)

    @classmethod
    def load(cls, path: str | Path) -> "RecipePair":
        """Read what `save` wrote; raises what `Recipe.load` does."""
        arrays = read_arrays(path)
        recipes = [
            Recipe.from_arrays(
                {
                    name.removeprefix(f"{which}_"): array
                    for name, array in arrays.items()
                    if name.startswith(f"{which}_")
                }
            )
            for which in ("input", "output")
        ]
        if not np.array_equal(recipes[0].source_of, recipes[1].source_of):
            raise ValueError("its two recipes copy different rows")
        return cls(*recipes)
