"""New rows that no recipe describes, such as random ones: one dense array for each matrix."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lexigraft.errors import UserError
from lexigraft.initialization.matrix import (
    Matrix,
    check_matrix,
    copy_rows,
    empty_like,
    write_rows,
)


@dataclass(frozen=True)
class DenseRows:
    """The new rows of each matrix; all other rows are copied.

    Attributes
    ----------
    new
        `"input"` and, for untied models, `"output"` -> floating-point rows [len(new_ids), h].
    source_of
        [n_target]: the source row that each target row copies, -1 for new tokens.
    n_source
        Rows of the source matrices, padding rows included.
    """

    new: Mapping[str, np.ndarray]
    source_of: np.ndarray
    n_source: int

    @cached_property
    def new_ids(self) -> np.ndarray:
        """Ids of the new tokens, ascending."""
        return np.flatnonzero(self.source_of < 0)

    @property
    def n_target(self) -> int:
        """Rows of the matrices that `apply` makes."""
        return len(self.source_of)

    def apply(self, matrix: Matrix, which: str = "input") -> Matrix:
        """Make the target matrix of a source matrix.

        Parameters
        ----------
        matrix
            numpy array or torch tensor [n_source, h] of any floating-point type.
        which
            Which matrix it is: `"input"` or `"output"`.

        Returns
        -------
        numpy array or torch tensor
            [n_target, h], same kind, type and device. Copied rows are bit-identical.

        Raises
        ------
        UserError
            The matrix has another shape, or there are no rows for it.
        """
        rows = self._of(which, matrix)
        out = empty_like(matrix, self.n_target)
        old = np.flatnonzero(self.source_of >= 0)
        copy_rows(out, old, matrix, self.source_of[old])
        write_rows(out, self.new_ids, slice(None), rows)
        return out

    def new_rows(self, matrix: Matrix, which: str) -> Iterator[tuple[slice, np.ndarray]]:
        """The new rows [len(new_ids), h] of a matrix, all columns at once."""
        yield slice(None), self._of(which, matrix)

    def _of(self, which: str, matrix: Matrix) -> np.ndarray:
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
        return rows
