"""Vectors of the tokens of one vocabulary, in memory and on disk (`vectors.safetensors`)."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lexigraft.atomic import replacing
from lexigraft.errors import UserError
from lexigraft.job import Job
from lexigraft.provenance import write_card

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_FILE = "vectors.safetensors"


@dataclass(frozen=True)
class TokenVectors:
    """Static vectors of tokens of one tokenizer.

    Attributes
    ----------
    tokens
        int64 [n]: ids of the tokens that have a vector, ascending.
    vectors
        float32 [n, dimensions], finite: one row for each of them.

    Raises
    ------
    ValueError
        The arrays have the wrong type or shape, or do not fit together.

    Examples
    --------
    >>> vectors = np.zeros((2, 300), dtype=np.float32)
    >>> TokenVectors(np.array([4, 7]), vectors).tokens.tolist()
    [4, 7]
    """

    tokens: np.ndarray
    vectors: np.ndarray

    def __post_init__(self) -> None:
        tokens, vectors = self.tokens, self.vectors
        if tokens.dtype != np.int64 or vectors.dtype != np.float32:
            raise ValueError(
                f"ids must be int64 and vectors float32, not {tokens.dtype}, {vectors.dtype}"
            )
        if tokens.ndim != 1 or vectors.ndim != 2 or len(tokens) != len(vectors):
            raise ValueError(f"{tokens.shape} ids do not fit {vectors.shape} vectors")
        if (tokens < 0).any() or (np.diff(tokens) <= 0).any():
            raise ValueError("ids are not ascending")
        if not np.isfinite(vectors).all():
            raise ValueError("vectors are not finite")


def save_vectors(vectors: TokenVectors, folder: str | Path) -> str:
    """Write token vectors; same vectors, same bytes. Returns the name of the file."""
    from safetensors.numpy import save_file

    with replacing(Path(folder) / _FILE) as temporary:
        save_file({"tokens": vectors.tokens, "vectors": vectors.vectors}, temporary)
    return _FILE


def store_vectors(
    job: Job, tokenizer: "PreTrainedTokenizerFast", vectors: TokenVectors, **facts: Any
) -> None:
    """Write the vectors of a tokenizer's tokens and the card of the job."""
    folder = Path(job["outputs"]["folder"])
    file = save_vectors(vectors, folder)
    sizes = {"tokens": len(tokenizer), "tokens_with_vector": len(vectors.tokens)}
    write_card(folder, job, [file], **sizes, **facts)


def load_vectors(folder: str | Path) -> TokenVectors:
    """Read what `save_vectors` wrote.

    Raises
    ------
    UserError
        The folder holds no vectors, or the file is truncated or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    file = Path(folder) / _FILE
    if not file.is_file():
        raise UserError(f"auxiliary {folder}: holds no {_FILE}")
    try:
        tensors = load_file(file)
        return TokenVectors(tensors["tokens"], tensors["vectors"])
    except (SafetensorError, KeyError, ValueError) as error:
        raise UserError(
            f"auxiliary {file}: truncated or damaged ({error}); delete {folder} and run again"
        ) from None
