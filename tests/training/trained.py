"""What tests of trained cells share."""

from pathlib import Path
from typing import Any

import torch

from lexigraft.initialization.storage import save_initialization
from lexigraft.vocabulary.tokenizer_files import save_tokenizer


def folder_of(job: dict[str, Any]) -> Path:
    """The output folder of a job."""
    return Path(job["outputs"]["folder"])


def give_vocabulary(job: dict[str, Any], results: Path, tokenizer: Any, fitted: Any) -> None:
    """Store a vocabulary and its initialization among results, as the inputs of a job."""
    folders = {name: results / name / "tiny/te/new" for name in ("tokenizer", "initialization")}
    save_tokenizer(tokenizer, folders["tokenizer"])
    save_initialization(fitted, folders["initialization"])
    job["inputs"] |= {name: str(folder) for name, folder in folders.items()}


def same_bits(one: dict[Any, torch.Tensor], other: dict[Any, torch.Tensor]) -> bool:
    """Whether the same names have tensors of the same bits."""
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)
