"""Safetensors files of a model folder: headers, integrity, and single tensors."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_ROWS_AT_ONCE = 4096


def weight_files(folder: str | Path) -> list[Path]:
    """The safetensors files of the model, sorted by name."""
    folder = Path(folder)
    if (folder / SINGLE_FILE).is_file():
        return [folder / SINGLE_FILE]
    if not (folder / INDEX_FILE).is_file():
        pickled = sorted(path.name for path in folder.glob("*.bin"))
        if pickled:
            raise UserError(
                f"source {folder}: has only {pickled[0]}, a format that can run code when it is "
                "loaded; if you trust it, convert it: load the model with transformers and call "
                "model.save_pretrained(folder), which writes safetensors"
            )
        raise UserError(f"source {folder}: has no {SINGLE_FILE} and no {INDEX_FILE}")
    names = sorted(set(_weight_map(folder).values()))
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise UserError(
            f"source {folder}: {INDEX_FILE} names {missing[0]}, which is missing; fetch the model "
            "again"
        )
    return [folder / name for name in names]


def read_shapes(file: str | Path) -> dict[str, tuple[int, ...]]:
    """Shape of every tensor in a safetensors file by name, read from its header."""
    try:
        with safe_open(str(file), framework="np") as opened:
            names = opened.keys()
            return {name: tuple(opened.get_slice(name).get_shape()) for name in names}
    except SafetensorError as error:
        raise UserError(
            f"source {file}: not a safetensors file, or it is truncated or damaged ({error}); "
            "fetch it again"
        ) from None


def tensors(folder: str | Path) -> dict[str, tuple[Path, tuple[int, ...]]]:
    """File and shape of every tensor of the model, by name."""
    folder = Path(folder)
    located: dict[str, tuple[Path, tuple[int, ...]]] = {}
    for file in weight_files(folder):
        located |= {name: (file, shape) for name, shape in read_shapes(file).items()}
    if not (folder / SINGLE_FILE).is_file():
        for name, file_name in _weight_map(folder).items():
            if located.get(name, (None,))[0] != folder / file_name:
                raise UserError(
                    f"source {folder}: {INDEX_FILE} assigns {name} to {file_name}, which does not "
                    "contain it; fetch the model again"
                )
    return located


def read_tensor(file: str | Path, name: str) -> torch.Tensor:
    """One tensor of a safetensors file, in the dtype of the file."""
    with safe_open(str(file), framework="pt") as opened:
        return opened.get_tensor(name)


def check_finite(matrix: Any, tokenizer: PreTrainedTokenizerFast, subject: str) -> None:
    """Raise a `UserError` that names a token whose row of a matrix holds NaN or infinity.

    The matrix [rows, h] is a numpy array or a torch tensor, with row i for the token with id i.
    Rows without a token are ignored.
    """
    for start in range(0, len(matrix), _ROWS_AT_ONCE):
        rows = matrix[start : start + _ROWS_AT_ONCE]
        if hasattr(rows, "detach"):
            rows = rows.detach().float().cpu().numpy()
        for token_id in start + np.flatnonzero(~np.isfinite(rows).all(axis=1)):
            token = tokenizer.convert_ids_to_tokens(int(token_id))
            if token is not None:
                raise UserError(
                    f"{subject}: the row of {token!r} (id {token_id}) holds NaN or infinity, which "
                    "would spread to new rows; write finite numbers there, such as zeros, or "
                    "choose another source"
                )


def _weight_map(folder: Path) -> dict[str, str]:
    """Tensor name -> file name, from the index of a sharded model."""
    file = folder / INDEX_FILE
    try:
        names = json.loads(file.read_text(encoding="utf-8"))["weight_map"]
        if not all(Path(name).name == name for name in names.values()):
            raise ValueError("it names files outside the folder")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"source {file}: not an index of weights ({error})") from None
    return names
