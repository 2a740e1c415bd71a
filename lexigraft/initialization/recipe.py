"""A recipe: every target row as a weighted sum of source rows, stored sparse and factored.

`W = left @ right` where `right` is given, else `W = left`. The second factor keeps recipes small
that use many rows at once: the mean of all rows is one row of `right`, however many tokens use it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, eye_array, vstack

from lexigraft.atomic import replacing
from lexigraft.initialization.linear_algebra import leading_singular_vectors, project
from lexigraft.initialization.matrix import (
    Matrix,
    blocks,
    check_matrix,
    copy_rows,
    empty_like,
    read_rows,
    working_type,
    write_rows,
)

_NONZEROS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Recipe:
    """The factored recipe `W` [n_target, n_source] of all rows of a target matrix.

    Attributes
    ----------
    left
        csr_array [n_target, m], float64.
    right
        csr_array [m, n_source], float64; None where m = n_source and `left` is `W` itself.
    new_ids
        Ids of the new tokens, ascending. All other rows copy one source row.
    rank
        Number of leading right singular vectors of the matrix onto which the new rows `W E` are
        projected (OFA); None for no projection.
    """

    left: csr_array
    right: csr_array | None
    new_ids: np.ndarray
    rank: int | None = None

    @property
    def n_target(self) -> int:
        """Rows of the matrices that this recipe makes."""
        return self.left.shape[0]

    @property
    def n_source(self) -> int:
        """Rows of the matrices that this recipe takes."""
        return self.left.shape[1] if self.right is None else self.right.shape[1]

    @property
    def weights(self) -> csr_array:
        """`W` in full, [n_target, n_source], multiplied out at each access."""
        return self.rows(np.arange(self.n_target))

    def rows(self, ids: np.ndarray) -> csr_array:
        """Some rows of `W`, [len(ids), n_source]."""
        left = self.left[ids]
        rows = csr_array(left if self.right is None else left @ self.right)
        rows.sort_indices()
        return rows

    def apply(self, matrix: Matrix, which: str = "input") -> Matrix:
        """Make the target matrix of a source matrix.

        Parameters
        ----------
        matrix
            numpy array or torch tensor [n_source, h] of any floating-point type.
        which
            `"input"` or `"output"`: the same recipe serves both.

        Returns
        -------
        numpy array or torch tensor
            [n_target, h], same kind, type and device. Copied rows are bit-identical; the others
            are summed in float32 (float64 for float64) and rounded once.

        Raises
        ------
        UserError
            The matrix has another number of rows, or is no floating-point matrix.
        """
        check_matrix(matrix, self.n_source)
        out = empty_like(matrix, self.n_target)
        copied = np.flatnonzero(self.copied >= 0)
        copy_rows(out, copied, matrix, self.copied[copied])
        mixed = np.flatnonzero(self.copied < 0)
        for columns, values in self._sums(matrix, mixed):
            write_rows(out, mixed, columns, values)
        return out

    def new_rows(self, matrix: Matrix, which: str) -> Iterator[tuple[slice, np.ndarray]]:
        """The new rows [len(new_ids), width] of a matrix, a block of columns at a time."""
        check_matrix(matrix, self.n_source)
        return self._sums(matrix, self.new_ids)

    def _sums(self, matrix: Matrix, ids: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Rows of some tokens, a block of columns at a time."""
        if not len(ids):
            return
        sums = self._products(matrix, ids)
        if self.rank is not None and self.rank < matrix.shape[1]:
            sums = project(sums, leading_singular_vectors(matrix, self.rank))
        yield from sums

    def _products(self, matrix: Matrix, ids: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Weighted sums, a block of columns at a time, reading only the rows that they use."""
        kind = working_type(matrix)
        left, right = self.left[ids].astype(kind), None
        if self.right is not None:
            factors = np.unique(left.indices)
            left, right = left[:, factors], self.right[factors].astype(kind)
        used = np.unique((left if right is None else right).indices).astype(np.int64)
        if right is None:
            left = left[:, used]
        else:
            right = right[:, used]
        for columns in blocks(matrix.shape[1], max(len(used), len(ids))):
            block = read_rows(matrix, used, columns)
            if right is not None:
                block = right @ block
            yield columns, left @ block

    @cached_property
    def copied(self) -> np.ndarray:
        """For each target row the source row that it copies, or -1 where it mixes several."""
        column = _single_ones(self.left)
        if self.right is not None:
            column = np.where(column >= 0, _single_ones(self.right)[column], -1)
        if self.rank is not None:
            column[self.new_ids] = -1  # one source row, projected, is not a copy
        return column

    @cached_property
    def source_of(self) -> np.ndarray:
        """[n_target]: the source row that each target row copies, -1 for new tokens."""
        source_of = self.copied.copy()
        source_of[self.new_ids] = -1
        return source_of

    def row_blocks(self, ids: np.ndarray) -> list[slice]:
        """Slices of `ids` whose rows of `W` together have a bounded number of nonzeros."""
        left = self.left[ids]
        if self.right is None:
            sizes = np.diff(left.indptr)
        else:
            width = np.diff(self.right.indptr).astype(np.float64)
            used = csr_array((np.ones(left.nnz), left.indices, left.indptr), shape=left.shape)
            sizes = used @ width
        cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // _NONZEROS_AT_ONCE)) + 1
        return [slice(a, b) for a, b in pairwise([0, *cuts.tolist(), len(ids)])]

    def save(self, path: str | Path) -> None:
        """Write the recipe as a compressed `.npz` of plain arrays; same recipe, same bytes."""
        write_arrays(self.arrays(), path)

    @classmethod
    def load(cls, path: str | Path) -> "Recipe":
        """Read a recipe that `save` wrote, and check that its parts fit together.

        Raises
        ------
        ValueError, KeyError, OSError, zipfile.BadZipFile, zlib.error, EOFError
            The file is missing, truncated, damaged or of another format. `load_initialization`
            turns these into an error for the user.
        """
        return cls.from_arrays(read_arrays(path))

    def arrays(self) -> dict[str, np.ndarray]:
        """The recipe as plain arrays by name."""
        arrays = {"new_ids": self.new_ids, **_arrays("left", self.left)}
        if self.right is not None:
            arrays |= _arrays("right", self.right)
        return arrays if self.rank is None else arrays | {"rank": np.array(self.rank)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "Recipe":
        """The inverse of `arrays`; raises what `load` does."""
        left = _matrix(arrays, "left")
        right = _matrix(arrays, "right") if "right_shape" in arrays else None
        new_ids = arrays["new_ids"].astype(np.int64)
        if right is not None and right.shape[0] != left.shape[1]:
            raise ValueError("its two factors do not fit together")
        if new_ids.ndim != 1 or (new_ids < 0).any() or (new_ids >= left.shape[0]).any():
            raise ValueError("its new ids are not rows of it")
        rank = int(arrays["rank"]) if "rank" in arrays else None
        if rank is not None and rank < 1:
            raise ValueError("its rank is not above zero")
        return cls(left, right, new_ids, rank)


def assemble_recipe(rows: csr_array, source_of: np.ndarray, source_ids: np.ndarray) -> Recipe:
    """Assemble the recipe of a whole vocabulary from the recipe rows of its new tokens.

    Parameters
    ----------
    rows
        [number of new tokens, n_source + 1]: weights on source rows; the last column is a weight on
        the mean of all source tokens.
    source_of
        [n_target]: the source row that each target row copies, -1 for new tokens.
    source_ids
        Ids of all source tokens: the rows that the mean of all is over.
    """
    n_source = rows.shape[1] - 1
    new_ids, old = np.flatnonzero(source_of < 0), np.flatnonzero(source_of >= 0)
    columns = np.concatenate([source_of[old], rows.indices])
    owners = new_ids[np.repeat(np.arange(len(new_ids)), np.diff(rows.indptr))]
    targets = np.concatenate([old, owners])
    weights = np.concatenate([np.ones(len(old)), rows.data])
    uses_mean = bool((rows.indices == n_source).any())
    left = csr_array((weights, (targets, columns)), shape=(len(source_of), n_source + uses_mean))
    if not uses_mean:
        return Recipe(left, None, new_ids)
    share = np.full(len(source_ids), 1 / len(source_ids))
    all_rows = csr_array((share, (np.zeros_like(source_ids), source_ids)), shape=(1, n_source))
    right = csr_array(vstack([eye_array(n_source, format="csr"), all_rows], format="csr"))
    return Recipe(left, right, new_ids)


def write_arrays(arrays: dict[str, np.ndarray], path: str | Path) -> None:
    """Write arrays as one compressed `.npz`; same arrays, same bytes."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """Read what `write_arrays` wrote, never a pickle; raises what `Recipe.load` does."""
    with Path(path).open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        if not isinstance(stored, np.lib.npyio.NpzFile):
            raise ValueError("not an npz archive")
        return dict(stored)


def _single_ones(matrix: csr_array) -> np.ndarray:
    """For each row its column where the row is a single 1.0, else -1."""
    column = np.full(matrix.shape[0], -1, dtype=np.int64)
    single = np.flatnonzero(np.diff(matrix.indptr) == 1)
    at = matrix.indptr[single]
    ones = matrix.data[at] == 1.0
    column[single[ones]] = matrix.indices[at[ones]]
    return column


def _arrays(name: str, matrix: csr_array) -> dict[str, np.ndarray]:
    return {
        f"{name}_data": matrix.data,
        f"{name}_indices": matrix.indices.astype(np.int32),
        f"{name}_indptr": matrix.indptr.astype(np.int64),
        f"{name}_shape": np.array(matrix.shape, dtype=np.int64),
    }


def _matrix(arrays: dict[str, np.ndarray], name: str) -> csr_array:
    parts = [arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr")]
    if parts[0].dtype != np.float64 or not np.isfinite(parts[0]).all():
        raise ValueError(f"its {name} factor holds no finite float64 weights")
    n_rows, n_columns = arrays[f"{name}_shape"].tolist()
    matrix = csr_array(tuple(parts), shape=(n_rows, n_columns))
    matrix.check_format(full_check=True)
    return matrix
