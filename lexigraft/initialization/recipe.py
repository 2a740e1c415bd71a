"""Recipes: every target row as a weighted sum of source rows, stored sparse and factored.

`W = left @ right`, or `W = left`. The second factor keeps recipes small that use many rows: the
mean of all rows is one row of `right`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, eye_array, vstack

from lexigraft.artifacts.atomic import atomic_file
from lexigraft.errors import UserError
from lexigraft.initialization.matrix import (
    Matrix,
    blocks,
    check_matrix,
    leading_singular_vectors,
    mean_norm,
    project,
    read_rows,
    row_covariance,
    row_deviation,
    row_mean,
    target_matrix,
    working_type,
)
from lexigraft.randomness import generator

_NONZEROS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Recipe:
    """The factored recipe `W` [n_target, n_source] of all rows of a target matrix.

    All rows except those of `new_ids` copy one source row. With a `rank`, the new rows `W E` are
    projected onto that number of leading right singular vectors of the matrix (OFA). To the rows of
    `drawn_ids`, which are the mean of all source tokens in `W`, noise with the deviation of these
    tokens' rows is added. With `norm_of`, each new row is then scaled to the mean norm of these
    source rows.
    """

    left: csr_array  # [n_target, m], float64
    right: csr_array | None  # [m, n_source], float64; None where m = n_source: `left` is `W` itself
    new_ids: np.ndarray  # ids of the new tokens, ascending
    rank: int | None = None
    norm_of: np.ndarray | None = None  # ids of the source tokens
    drawn_ids: np.ndarray | None = None  # among `new_ids`, ascending
    seed: int = 0  # of the noise

    @property
    def n_target(self) -> int:
        """Number of rows of the target matrix."""
        return self.left.shape[0]

    @property
    def n_source(self) -> int:
        """Number of rows of the source matrix."""
        return (self.left if self.right is None else self.right).shape[1]

    @property
    def is_linear(self) -> bool:
        """Whether the target matrix is `W E`: not projected, scaled or drawn."""
        return self.rank is None and self.norm_of is None and self.drawn_ids is None

    @property
    def weights(self) -> csr_array:
        """The full `W` [n_target, n_source], computed at each access."""
        return self.rows(np.arange(self.n_target))

    def rows(self, ids: np.ndarray) -> csr_array:
        """The rows of `W` for these target ids, [len(ids), n_source]."""
        left = self.left[ids]
        rows = csr_array(left if self.right is None else left @ self.right)
        rows.sort_indices()
        return rows

    def heaviest(self, ids: np.ndarray) -> np.ndarray:
        """The source row with the highest weight in each of these target rows; ties: the first."""
        source_rows = self.copied[ids]
        mixed = np.flatnonzero(source_rows < 0)
        for block in self.row_blocks(ids[mixed]):
            rows = self.rows(ids[mixed[block]])
            for index, (begin, end) in zip(mixed[block], pairwise(rows.indptr), strict=True):
                source_rows[index] = rows.indices[begin + rows.data[begin:end].argmax()]
        return source_rows

    def recipe(self, which: str) -> "Recipe":
        """The recipe of the matrix `"input"` or `"output"`: this one."""
        return self

    def apply(self, matrix: Matrix, which: str = "input") -> Matrix:
        """Compute the target matrix [n_target, h] from a source matrix [n_source, h].

        The result has the array type, dtype and device of the matrix. Copied rows are
        bit-identical; all other rows are summed in float32 (float64 for float64) and rounded once.
        """
        check_matrix(matrix, self.n_source)
        other_ids = np.flatnonzero(self.copied < 0)
        return target_matrix(matrix, self.copied, self._sums(matrix, other_ids, which))

    def new_rows(self, matrix: Matrix, which: str) -> Iterator[tuple[slice, np.ndarray]]:
        """The new rows [len(new_ids), width] of a matrix, a block of columns at a time."""
        check_matrix(matrix, self.n_source)
        return self._sums(matrix, self.new_ids, which)

    def _sums(
        self, matrix: Matrix, ids: np.ndarray, which: str
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """The rows of these target ids, a block of columns at a time."""
        if not len(ids):
            return
        is_projected = self.rank is not None and self.rank < matrix.shape[1]
        singular_vectors = (
            leading_singular_vectors(matrix, self.rank or 0) if is_projected else None
        )

        drawn_ids = np.zeros(0, np.int64) if self.drawn_ids is None else self.drawn_ids
        drawn = np.searchsorted(ids, drawn_ids)
        noise = self._noise(matrix, drawn_ids, which, singular_vectors) if len(drawn) else None

        def rows() -> Iterator[tuple[slice, np.ndarray]]:
            sums = self._products(matrix, ids)
            if singular_vectors is not None:
                sums = project(sums, singular_vectors)
            for columns, values in sums:
                if noise is not None:
                    values[drawn] += noise[:, columns].astype(values.dtype)
                yield columns, values

        if self.norm_of is None:
            yield from rows()
            return
        squared_norms = np.zeros(len(ids))
        for _, values in rows():  # computed twice: all rows at once may not fit into memory
            squared_norms += np.square(values, dtype=np.float64).sum(axis=1)
        scales = mean_norm(matrix, self.norm_of) / np.sqrt(
            np.where(squared_norms > 0, squared_norms, 1)
        )
        for columns, values in rows():
            yield columns, values * scales[:, None].astype(values.dtype)

    def _noise(
        self, matrix: Matrix, ids: np.ndarray, which: str, singular_vectors: np.ndarray | None
    ) -> np.ndarray:
        """Draws [len(ids), h] from N(0, std) of the source tokens' rows or of their coordinates."""
        assert self.right is not None
        source_ids = self.right[[-1]].indices.astype(np.int64)  # of the mean of all source tokens
        mean = row_mean(matrix, source_ids)
        rng = generator(self.seed, "initialization", "drawn rows", which)
        if singular_vectors is None:
            draws = rng.standard_normal((len(ids), matrix.shape[1]))
            draws *= row_deviation(matrix, source_ids, mean)
            return draws
        covariance = row_covariance(matrix, source_ids, mean)
        deviations = np.sqrt(np.einsum("ij,ij->j", singular_vectors, covariance @ singular_vectors))
        draws = rng.standard_normal((len(ids), len(deviations))) * deviations
        return draws @ singular_vectors.T

    def _products(self, matrix: Matrix, ids: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Weighted sums, a block of columns at a time, reading only the rows that they use."""
        dtype = working_type(matrix)
        factors = [self.left[ids].astype(dtype)]
        if self.right is not None:
            inner_ids = np.unique(factors[0].indices)
            factors = [factors[0][:, inner_ids], self.right[inner_ids].astype(dtype)]
        source_ids = np.unique(factors[-1].indices).astype(np.int64)
        factors[-1] = factors[-1][:, source_ids]
        for columns in blocks(matrix.shape[1], max(len(source_ids), len(ids))):
            values = read_rows(matrix, source_ids, columns)
            for factor in reversed(factors):
                values = factor @ values
            yield columns, values

    @cached_property
    def copied(self) -> np.ndarray:
        """[n_target]: the source row that each target row copies exactly, -1 for all other rows."""
        column = _single_ones(self.left)
        if self.right is not None:
            column = np.where(column >= 0, _single_ones(self.right)[column], -1)
        if self.rank is not None or self.norm_of is not None:
            column[self.new_ids] = -1  # one source row, projected or scaled, is not a copy
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
        sizes = np.diff(left.indptr)
        if self.right is not None:
            pattern = csr_array((np.ones(left.nnz), left.indices, left.indptr), shape=left.shape)
            sizes = pattern @ np.diff(self.right.indptr).astype(np.float64)
        ends = np.flatnonzero(np.diff(np.cumsum(sizes) // _NONZEROS_AT_ONCE)) + 1
        return [slice(a, b) for a, b in pairwise([0, *ends.tolist(), len(ids)])]

    def save(self, path: str | Path) -> None:
        """Write the recipe as a compressed `.npz` of plain arrays; the bytes are deterministic."""
        _write_arrays(self._arrays(), path)

    @classmethod
    def load(cls, path: str | Path) -> "Recipe":
        """Read a recipe that `save` wrote; raises various errors if the file is damaged."""
        return cls._from_arrays(_read_arrays(path))

    def _arrays(self, prefix: str = "") -> dict[str, np.ndarray]:
        arrays = {"new_ids": self.new_ids}
        for name, factor in (("left", self.left), ("right", self.right)):
            if factor is not None:
                arrays[f"{name}_data"] = factor.data
                arrays[f"{name}_indices"] = factor.indices.astype(np.int32)
                arrays[f"{name}_indptr"] = factor.indptr.astype(np.int64)
                arrays[f"{name}_shape"] = np.array(factor.shape, dtype=np.int64)
        if self.rank is not None:
            arrays["rank"] = np.array(self.rank)
        if self.norm_of is not None:
            arrays["norm_of"] = self.norm_of
        if self.drawn_ids is not None:
            arrays |= {"drawn_ids": self.drawn_ids, "seed": np.array(self.seed)}
        return {f"{prefix}{name}": array for name, array in arrays.items()}

    @classmethod
    def _from_arrays(cls, arrays: dict[str, np.ndarray], prefix: str = "") -> "Recipe":
        names = [name for name in arrays if name.startswith(prefix)]
        arrays = {name.removeprefix(prefix): arrays[name] for name in names}
        left = _factor(arrays, "left")
        right = _factor(arrays, "right") if "right_shape" in arrays else None
        new_ids = arrays["new_ids"].astype(np.int64)
        if right is not None and right.shape[0] != left.shape[1]:
            raise ValueError("its two factors do not match")
        if new_ids.ndim != 1 or (new_ids < 0).any() or (new_ids >= left.shape[0]).any():
            raise ValueError("its new ids are not among its rows")
        rank = int(arrays["rank"]) if "rank" in arrays else None
        if rank is not None and rank < 1:
            raise ValueError("its rank is not positive")
        norm_of = arrays["norm_of"].astype(np.int64) if "norm_of" in arrays else None
        source_rows = np.arange((left if right is None else right).shape[1])
        if norm_of is not None and not (len(norm_of) and np.isin(norm_of, source_rows).all()):
            raise ValueError("its rows for norms are not source rows")
        drawn_ids = arrays["drawn_ids"].astype(np.int64) if "drawn_ids" in arrays else None
        if drawn_ids is not None and (right is None or not np.isin(drawn_ids, new_ids).all()):
            raise ValueError("its drawn ids are not among its new ids")
        seed = int(arrays.get("seed", 0))
        return cls(left, right, new_ids, rank, norm_of, drawn_ids, seed)


@dataclass(frozen=True)
class RecipePair:
    """A recipe for each matrix, for methods that learn input and output rows separately.

    Both copy the same rows. A tied model uses `input`. The methods are those of `Recipe`.
    """

    input: Recipe
    output: Recipe

    n_target, n_source, new_ids, source_of = (
        property(attrgetter(f"input.{name}"))
        for name in ("n_target", "n_source", "new_ids", "source_of")
    )

    @property
    def weights(self) -> dict[str, csr_array]:
        """The full `W` of both, each [n_target, n_source], by `"input"` and `"output"`."""
        return {"input": self.input.weights, "output": self.output.weights}

    def recipe(self, which: str) -> Recipe:
        """The recipe of `"input"` or `"output"`; raises a `UserError` for any other name."""
        if which not in ("input", "output"):
            raise UserError(f"matrix '{which}': there are recipes for 'input' and 'output' only")
        return self.input if which == "input" else self.output

    def apply(self, matrix: Matrix, which: str = "input") -> Matrix:
        """Compute the target matrix [n_target, h] of `"input"` or `"output"` with its recipe."""
        return self.recipe(which).apply(matrix, which)

    def new_rows(self, matrix: Matrix, which: str) -> Iterator[tuple[slice, np.ndarray]]:
        """The new rows [len(new_ids), width] of one matrix, a block of columns at a time."""
        return self.recipe(which).new_rows(matrix, which)

    def save(self, path: str | Path) -> None:
        """Write both as one compressed `.npz` of plain arrays; the bytes are deterministic."""
        _write_arrays(self.input._arrays("input_") | self.output._arrays("output_"), path)

    @classmethod
    def load(cls, path: str | Path) -> "RecipePair":
        """Read recipes that `save` wrote; raises the same errors as `Recipe.load`."""
        arrays = _read_arrays(path)
        input_recipe, output_recipe = (
            Recipe._from_arrays(arrays, prefix) for prefix in ("input_", "output_")
        )
        if not np.array_equal(input_recipe.source_of, output_recipe.source_of):
            raise ValueError("its two recipes copy different rows")
        return cls(input_recipe, output_recipe)


@dataclass(frozen=True)
class DenseRows:
    """The new rows [len(new_ids), h] of each matrix, by `"input"` and `"output"`."""

    new: Mapping[str, np.ndarray]
    source_of: np.ndarray  # [n_target]: the source row that each target row copies, -1 for new
    n_source: int  # rows of the source matrices, including padding rows

    @cached_property
    def new_ids(self) -> np.ndarray:
        """Ids of the new tokens, ascending."""
        return np.flatnonzero(self.source_of < 0)

    @property
    def n_target(self) -> int:
        """Number of rows of the matrices that `apply` returns."""
        return len(self.source_of)

    def apply(self, matrix: Matrix, which: str = "input") -> Matrix:
        """Compute the target matrix [n_target, h] from a source matrix [n_source, h]."""
        return target_matrix(matrix, self.source_of, self.new_rows(matrix, which))

    def new_rows(self, matrix: Matrix, which: str) -> Iterator[tuple[slice, np.ndarray]]:
        """The new rows [len(new_ids), h] of a matrix, all columns at once."""
        check_matrix(matrix, self.n_source)
        rows = self.new.get(which)
        if rows is None or rows.shape != (len(self.new_ids), matrix.shape[1]):
            raise UserError(
                f"matrix '{which}': there are no new rows of its width; fit and save the "
                "initializer with this model's matrices"
            )
        return iter([(slice(None), rows)])


def assemble_recipe(
    rows: csr_array, source_of: np.ndarray, source_ids: np.ndarray, scaled: bool = False
) -> Recipe:
    """Assemble the recipe of a whole vocabulary from the recipe rows of its new tokens.

    `rows` [number of new tokens, n_source + 1] are weights on source rows, in the last column on
    the mean of the source tokens `source_ids`. `source_of` [n_target] is the source row that each
    target row copies, -1 for new tokens. With `scaled`, new rows are scaled to the mean norm of the
    source rows.
    """
    norm_of = source_ids if scaled else None
    n_source = rows.shape[1] - 1
    new_ids, copied_ids = np.flatnonzero(source_of < 0), np.flatnonzero(source_of >= 0)
    source_of_weight = np.concatenate([source_of[copied_ids], rows.indices])
    target_of_weight = new_ids[np.repeat(np.arange(len(new_ids)), np.diff(rows.indptr))]
    row_of_weight = np.concatenate([copied_ids, target_of_weight])
    weights = np.concatenate([np.ones(len(copied_ids)), rows.data])
    uses_mean = bool((rows.indices == n_source).any())
    left = csr_array(
        (weights, (row_of_weight, source_of_weight)), shape=(len(source_of), n_source + uses_mean)
    )
    if not uses_mean:
        return Recipe(left, None, new_ids, norm_of=norm_of)
    mean_weights = np.full(len(source_ids), 1 / len(source_ids))
    mean_row = csr_array(
        (mean_weights, (np.zeros_like(source_ids), source_ids)), shape=(1, n_source)
    )
    right = csr_array(vstack([eye_array(n_source, format="csr"), mean_row], format="csr"))
    return Recipe(left, right, new_ids, norm_of=norm_of)


def _single_ones(matrix: csr_array) -> np.ndarray:
    """The column of each row's single entry if that is 1.0, otherwise -1."""
    column = np.full(matrix.shape[0], -1, dtype=np.int64)
    rows = np.flatnonzero(np.diff(matrix.indptr) == 1)
    positions = matrix.indptr[rows]
    is_one = matrix.data[positions] == 1.0
    column[rows[is_one]] = matrix.indices[positions[is_one]]
    return column


def _write_arrays(arrays: dict[str, np.ndarray], path: str | Path) -> None:
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """Read arrays by name; pickles are refused."""
    with Path(path).open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        if not isinstance(stored, np.lib.npyio.NpzFile):
            raise ValueError("not an npz archive")
        return dict(stored)


def _factor(arrays: dict[str, np.ndarray], name: str) -> csr_array:
    parts = [arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr")]
    if parts[0].dtype != np.float64 or not np.isfinite(parts[0]).all():
        raise ValueError(f"its {name} factor does not contain finite float64 weights")
    n_rows, n_columns = arrays[f"{name}_shape"].tolist()
    matrix = csr_array(tuple(parts), shape=(n_rows, n_columns))
    matrix.check_format(full_check=True)
    return matrix
