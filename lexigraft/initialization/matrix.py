"""Operations on rows that numpy arrays and torch tensors share.

Arithmetic happens in numpy, in float32 (float64 for float64), a block at a time; torch is imported
only for tensors.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from lexigraft.errors import UserError

Matrix = Any  # numpy.ndarray or torch.Tensor, [rows, h]

_BLOCK_VALUES = 1 << 23  # 32 MiB of float32: small compared to embedding matrices


def check_matrix(matrix: Matrix, n_rows: int) -> None:
    """Raise a `UserError` for anything but a floating-point matrix with `n_rows` rows."""
    if not (isinstance(matrix, np.ndarray) or _is_tensor(matrix)):
        raise UserError(f"matrix: give a numpy array or a torch tensor, not {type(matrix)}")
    floating = matrix.is_floating_point() if _is_tensor(matrix) else matrix.dtype.kind == "f"
    if matrix.ndim != 2 or not floating:
        raise UserError(
            f"matrix: give floating-point rows [{n_rows}, h], not {matrix.dtype} of shape "
            f"{tuple(matrix.shape)}"
        )
    if matrix.shape[0] != n_rows:
        raise UserError(
            f"matrix: it has {matrix.shape[0]} rows, but the initializer was fitted for {n_rows}; "
            "fit it with n_source=<number of rows of the source matrix>"
        )


def empty_like(matrix: Matrix, n_rows: int) -> Matrix:
    """An uninitialized matrix of the same kind, type and width with `n_rows` rows."""
    shape = (n_rows, matrix.shape[1])
    return matrix.new_empty(shape) if _is_tensor(matrix) else np.empty(shape, matrix.dtype)


def working_type(matrix: Matrix) -> np.dtype:
    """float64 for float64 matrices, float32 for all others."""
    double = "float64" in str(matrix.dtype)
    return np.dtype(np.float64 if double else np.float32)


def read_rows(matrix: Matrix, rows: np.ndarray, columns: slice) -> np.ndarray:
    """Some rows and columns as numpy, in the working type: [len(rows), width]."""
    if _is_tensor(matrix):
        import torch

        block = matrix.detach()[:, columns][torch.from_numpy(rows).to(matrix.device)]
        double = matrix.dtype == torch.float64
        return block.to("cpu", torch.float64 if double else torch.float32).numpy()
    return matrix[:, columns][rows].astype(working_type(matrix))


def write_rows(matrix: Matrix, rows: np.ndarray, columns: slice, values: np.ndarray) -> None:
    """Write numpy values [len(rows), width] over some rows and columns, rounded to its type."""
    if _is_tensor(matrix):
        import torch

        index = torch.from_numpy(rows).to(matrix.device)
        matrix[index, columns] = torch.from_numpy(values).to(matrix.device, matrix.dtype)
    else:
        matrix[rows, columns] = values


def copy_rows(into: Matrix, rows: np.ndarray, matrix: Matrix, sources: np.ndarray) -> None:
    """Set `into[rows] = matrix[sources]` bit by bit, a block of rows at a time."""
    for block in blocks(len(rows), matrix.shape[1]):
        if _is_tensor(matrix):
            import torch

            index = torch.from_numpy(rows[block]).to(matrix.device)
            source = torch.from_numpy(sources[block]).to(matrix.device)
            into[index] = matrix.detach()[source]
        else:
            into[rows[block]] = matrix[sources[block]]


def blocks(length: int, width: int) -> Iterator[slice]:
    """Slices that cut `length` rows (or columns) of `width` values into blocks of bounded size."""
    step = max(1, _BLOCK_VALUES // max(1, width))
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


def _is_tensor(matrix: Matrix) -> bool:
    return type(matrix).__module__.split(".")[0] == "torch"
