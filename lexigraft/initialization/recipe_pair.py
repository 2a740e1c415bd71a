"""A recipe for each matrix: methods that learn input and output rows apart."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from lexigraft.errors import UserError
from lexigraft.initialization.auxiliaries import Roles
from lexigraft.initialization.explanation import described, parts_of
from lexigraft.initialization.interface import Initializer, counted
from lexigraft.initialization.matrix import Matrix
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.recipe import Recipe, assembled, read_arrays, write_arrays


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

    def of(self, which: str) -> Recipe:
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
        return self.of(which).apply(matrix, which)

    def new_rows(self, matrix: Matrix, which: str) -> Iterator[tuple[slice, np.ndarray]]:
        """The new rows [len(new_ids), width] of one matrix, a block of columns at a time."""
        return self.of(which).new_rows(matrix, which)

    def save(self, path: str | Path) -> None:
        """Write both as one compressed `.npz` of plain arrays; same recipes, same bytes."""
        arrays: dict[str, np.ndarray] = {}
        for which in ("input", "output"):
            found = self.of(which).arrays()
            arrays |= {f"{which}_{name}": array for name, array in found.items()}
        write_arrays(arrays, path)

    @classmethod
    def load(cls, path: str | Path) -> "RecipePair":
        """Read what `save` wrote; raises what `Recipe.load` does."""
        arrays = read_arrays(path)
        recipes = [
            Recipe.of_arrays(
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


class RecipePairInitializer(Initializer):
    """A method that makes input and output rows by different weighted sums of source rows.

    Attributes
    ----------
    recipe_ : RecipePair
        Both recipes; `weights_` multiplies them out.
    """

    recipe_: RecipePair

    @property
    def weights_(self) -> dict[str, csr_array]:
        """`W` of `"input"` and of `"output"`, each [n_target, n_source], float64."""
        self._fitted()
        return self.recipe_.weights

    def apply(self, matrix: Matrix, which: str = "input") -> Matrix:
        """Make one target matrix of a source matrix by its own recipe, see `Recipe.apply`."""
        self._fitted()
        return self.recipe_.apply(matrix, which)

    def parts(self, token_id: int, which: str = "input") -> list[tuple[str, float]]:
        """Texts and weights of the source rows that a target row is made of, heaviest first."""
        return parts_of(self.recipe_.of(which), token_id, self._fitted().source_bytes)

    def statistics(self) -> dict[str, Any]:
        """What every recipe counts: of the input, and as `output_…` of the other."""
        pieces = self._fitted().source_bytes
        found = {
            which: counted(self.recipe_.of(which), self._fallback_ids, pieces)
            for which in ("input", "output")
        }
        count = found["output"].pop("new_tokens")
        output = {f"output_{name}": value for name, value in found["output"].items()}
        return {**found["input"], "new_tokens": count, **output}

    def _fit(self, corpus: Iterable[str] | None, auxiliary: Roles) -> None:
        pair = self.pair_
        rows, fallback = self._new_rows(pair, corpus, auxiliary)
        made = [assembled(rows[which], pair.source_of, pair.source_ids) for which in rows]
        self.recipe_ = RecipePair(*made)
        self._fallback_ids = pair.new_ids[fallback]
        self.fallbacks_ = [pair.new_tokens[i] for i in np.flatnonzero(fallback)]

    def _explain(self, token_id: int, text: str) -> str:
        head = described(text, self.parts(token_id, "output"))
        return f"{described(text, self.parts(token_id))}; in the head {head}"

    @abstractmethod
    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Roles
    ) -> tuple[Mapping[str, csr_array], np.ndarray]:
        """Recipe rows of the new tokens for each matrix, and which tokens fell back.

        Returns
        -------
        rows
            `"input"` and `"output"`, in that order: [len(new_ids), n_source + 1] as
            `recipe.assembled` takes them, rows summing to one.
        fallback : ndarray of bool
            [len(new_ids)], true where no rule of the method covers the token.
        """
