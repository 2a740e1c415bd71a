"""What tests of trained cells share."""

from pathlib import Path
from typing import Any

import torch


def folder_of(job: dict[str, Any]) -> Path:
    """The output folder of a job."""
    return Path(job["outputs"]["folder"])


def same_bits(one: dict[Any, torch.Tensor], other: dict[Any, torch.Tensor]) -> bool:
    """Whether the same names have tensors of the same bits."""
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)
