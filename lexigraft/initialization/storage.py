"""Initializations on disk: `recipe.npz`, `recipes.npz` (one per matrix) or `rows.safetensors`."""

import hashlib
import zipfile
import zlib
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from lexigraft.artifacts.atomic import atomic_file
from lexigraft.errors import UserError
from lexigraft.initialization.interface import Initializer, RecipeInitializer, RowInitializer
from lexigraft.initialization.matrix import Matrix
from lexigraft.initialization.recipe import DenseRows, Recipe, RecipePair

_RECIPE = "recipe.npz"
_RECIPES = "recipes.npz"
_ROWS = "rows.safetensors"
_FILES = (_RECIPE, _RECIPES, _ROWS)
_DAMAGE = (ValueError, KeyError, TypeError, OSError, EOFError, NotImplementedError)


def save_initialization(
    fitted: Initializer, folder: str | Path, matrices: dict[str, Matrix] | None = None
) -> str:
    """Write a fitted initializer in the form that `load_initialization` reads; returns the file's
    name.

    `matrices` are the source's `"input"` and, unless tied, `"output"`: methods without `weights_`
    compute their rows from these now, and raise a `UserError` without them.
    """
    folder = Path(folder)
    if isinstance(fitted, RecipeInitializer):
        file = _RECIPE if isinstance(fitted.recipe_, Recipe) else _RECIPES
        fitted.recipe_.save(folder / file)
    elif isinstance(fitted, RowInitializer) and matrices:
        file = _ROWS
        _save_rows(fitted.rows(matrices), folder / file)
    else:
        raise UserError(
            f"initializer '{fitted.name}': its rows are computed from the source matrices; give "
            "them as matrices={'input': …} and, unless tied, 'output'"
        )
    for stale_file in {*_FILES} - {file}:
        (folder / stale_file).unlink(missing_ok=True)
    return file


def load_initialization(folder: str | Path) -> Recipe | RecipePair | DenseRows:
    """Read what `save_initialization` wrote; a `UserError` if it is missing or damaged."""
    folder = Path(folder)
    file = next((folder / name for name in _FILES if (folder / name).is_file()), None)
    if file is None:
        raise UserError(f"initialization {folder}: contains none of {', '.join(_FILES)}")
    try:
        if file.name == _ROWS:
            return _load_rows(file)
        return Recipe.load(file) if file.name == _RECIPE else RecipePair.load(file)
    except (*_DAMAGE, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(
            f"initialization {file}: truncated or damaged ({error}); delete {folder} and run again"
        ) from None


def _save_rows(rows: DenseRows, path: Path) -> None:
    tensors = {
        which: np.ascontiguousarray(new_rows, dtype=np.float32)
        for which, new_rows in rows.new.items()
    }
    tensors["source_of"] = rows.source_of
    tensors["n_source"] = np.array([rows.n_source], dtype=np.int64)
    with atomic_file(path) as temporary:
        # Safetensors has no checksum: a flipped bit in a row would go unnoticed.
        save_file(tensors, temporary, {"sha256": _digest(tensors)})


def _load_rows(path: Path) -> DenseRows:
    try:
        with safe_open(path, framework="numpy") as file:
            stored_digest = (file.metadata() or {})["sha256"]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    if _digest(tensors) != stored_digest:
        raise ValueError("its checksum does not match")
    source_of = tensors.pop("source_of")
    (n_source,) = tensors.pop("n_source").tolist()
    return DenseRows(tensors, source_of, n_source)


def _digest(tensors: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].shape} {tensors[name].dtype}\n".encode())
        digest.update(tensors[name].tobytes())
    return digest.hexdigest()
