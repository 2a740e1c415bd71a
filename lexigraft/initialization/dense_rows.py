"""New rows that no recipe describes, such as random ones: one dense array for each matrix."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lexigraft.errors import UserError
from lexigraft.initialization.matrix import Matrix, check_matrix, target_matrix


@dataclass(frozen=True)
class DenseRows:
    """The new rows of each matrix; all other rows are copied.

    `new` holds floating-point rows [len(new_ids), h] by `"input"` and, for untied models,
    `"output"`.
    """

    new: Mapping[str, np.ndarray]
    source_of: np.ndarray  # [n_target]: the source row that each target row copies, -1 for new
    n_source: int  # rows of the source matrices, padding rows included

    @cached_property
    def new_ids(self) -> np.ndarray:
        """Ids of the new tokens, ascending."""
        return np.flatnonzero(self.source_of < 0)

    @property
    def n_target(self) -> int:
        """Rows of the matrices that `apply` makes."""
        return len(self.source_of)

    def apply(self, matrix: Matrix, which: str = "input") -> Matrix:
        """Make the target matrix [n_target, h] of the source matrix `which`, see `Recipe.apply`.

        Raises a `UserError` if the matrix has another shape, or there are no rows for it.
        """
        return target_matrix(matrix, self.source_of, self.new_rows(matrix, which))

    def new_rows(self, matrix: Matrix, which: str) -> Iterator[tuple[slice, np.ndarray]]:
        """The new rows [len(new_ids), h] of a matrix, all columns at once."""
        check_matrix(matrix, self.n_source)
        if which not in self.new:
            raise UserError(
                f"matrix '{which}': there are rows for {' and '.join(self.new)} only; fit and save "
                "the initializer with this model's matrices"
            )
        rows = self.new[which]
        if rows.shape != (len(self.new_ids), matrix.shape[1]):
            raise UserError(
                f"matrix '{which}': it has width {matrix.shape[1]}, the new rows have width "
                f"{rows.shape[1]}; they were made for another model"
            )
        return iter([(slice(None), rows)])
