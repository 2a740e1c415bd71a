"""Opens the cell of an evaluation job with the engine that its task names."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.evaluation.registry import FINE_TUNED, GENERATED
from lexigraft.hardware import device, precision
from lexigraft.inference.vllm_model import VllmModel, engine_name
from lexigraft.source.model import load_tokenizer
from lexigraft.training.export import export
from lexigraft.training.store import load_cell

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast

VLLM = "vllm"


@contextmanager
def opened(job: dict[str, Any]) -> "Iterator[tuple[Any, PreTrainedTokenizerFast]]":
    """The model of a job's cell, a `PreTrainedModel` or `VllmModel`, and its tokenizer.

    vLLM reads plain folders: the cell is exported beside the record, and the export deleted again.

    Raises
    ------
    UserError
        The cell is incomplete or damaged, or vLLM is asked for and not there.
    """
    cell, settings = job["inputs"]["cell"], job["settings"]
    if settings.get("engine") != VLLM:
        model, tokenizer = load_cell(cell, _dtype(settings["kind"]))
        yield model.to(device()), tokenizer  # type: ignore[arg-type]  # its decorator hides `self`
        return
    engine_name()  # before gigabytes are written
    folder = Path(job["outputs"]["folder"]) / "exported"
    try:
        export(cell, folder)
        yield VllmModel(folder, precision()), load_tokenizer(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _dtype(kind: str) -> "torch.dtype":
    import torch

    # What is trained on keeps all of its digits. So does what writes on a CPU: in bfloat16 the text
    # may depend on the batch (with SmolLM2, one of six did), and gains at most a third of the time.
    if kind in FINE_TUNED:
        return torch.float32
    chosen = "LEXIGRAFT_PRECISION" in os.environ
    if kind in GENERATED and device().type == "cpu" and not chosen:
        return torch.float32
    return precision()
