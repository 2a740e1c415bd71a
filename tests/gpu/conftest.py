"""Tests that compute on the GPU: `make gpu-check`. Rehearsed on the CPU, their models are tiny.

They need no package of text: it is made of the pages of this repository.
"""

import os

# cuBLAS gives the same bits twice only with this, which it reads when it is first used.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import pytest
import torch

from lexigraft.hardware import device
from tests.conftest import REPOSITORY
from tests.training import conftest as training
from tests.training import test_new_rows

if not (torch.cuda.is_available() or os.environ.get("LEXIGRAFT_REHEARSE")):
    collect_ignore_glob = ["test_*.py"]

full_precision, grafted = training.full_precision, test_new_rows.grafted
training_setup, training_setup_in = training.training_setup, training.training_setup_in
with_bos, without_bos = training.with_bos, training.without_bos
TELUGU = {letter: 0x0C15 + at for at, letter in enumerate(range(ord("a"), ord("z") + 1))}


@pytest.fixture(autouse=True)
def same_bits_twice():
    """Only kernels that add up in the same order each time; attention has others, too."""
    torch.use_deterministic_algorithms(device().type == "cuda")
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="session")
def english():
    """Lines of the documentation."""
    lines = (REPOSITORY / "docs" / "methods.md").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if len(line) > 40][:200]


@pytest.fixture(scope="session")
def telugu(english):
    """The same in Telugu letters."""
    return [line.lower().translate(TELUGU) for line in english]
