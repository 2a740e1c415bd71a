"""Token vectors on disk: `vectors.safetensors` with `tokens` and `vectors`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.atomic import replacing
from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.job import Job
from lexigraft.provenance import write_card

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_FILE = "vectors.safetensors"


def save_vectors(vectors: TokenVectors, folder: str | Path) -> str:
    """Write token vectors; same vectors, same bytes. Returns the name of the file."""
    from safetensors.numpy import save_file

    with replacing(Path(folder) / _FILE) as temporary:
        save_file({"tokens": vectors.tokens, "vectors": vectors.vectors}, temporary)
    return _FILE


def store_vectors(
    job: Job, tokenizer: "PreTrainedTokenizerFast", vectors: TokenVectors, **facts: Any
) -> None:
    """Write the vectors of a tokenizer's tokens and their card, which ends a job."""
    folder = Path(job["outputs"]["folder"])
    file = save_vectors(vectors, folder)
    sizes = {"tokens": len(tokenizer), "tokens_with_vector": len(vectors.tokens)}
    write_card(folder, job, [file], **sizes, **facts)


def load_vectors(folder: str | Path) -> TokenVectors:
    """Read what `save_vectors` wrote.

    Raises
    ------
    UserError
        The folder holds no vectors, or the file is cut off or damaged.
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
            f"auxiliary {file}: cut off or damaged ({error}); delete {folder} and run again"
        ) from None
