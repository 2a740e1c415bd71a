"""Writes a cell as a plain Hugging Face folder that needs no lexigraft to load."""

import gc
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from lexigraft.atomic import replacing_folder, write_json
from lexigraft.errors import UserError
from lexigraft.hardware import device
from lexigraft.provenance import write_card
from lexigraft.source.model import tokenizer_folder
from lexigraft.training.store import load_cell, read_card, reference

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

# Files that `lexigraft.job.run` writes into an output folder before the work begins.
JOB_FILES = ("job.json", ".lock")


def export(cell_folder: str | Path, out: str | Path) -> Path:
    """Write the model and tokenizer of a cell to `out`, adapters merged, and return `out`.

    `transformers.AutoModelForCausalLM.from_pretrained(out)`, of an encoder `AutoModelForMaskedLM`,
    then computes what `load_cell` does.

    `cell_folder` is a cell under `results/training/`; `out` a new folder, or one that an earlier
    export wrote, which is replaced.

    Raises
    ------
    UserError
        `out` holds something else, or the cell is incomplete or damaged.
    """
    import torch

    cell_folder, out = Path(cell_folder), Path(out)
    _check_replaceable(out)
    model, tokenizer = _load(cell_folder)
    card = read_card(cell_folder)
    sentencepiece = tokenizer_folder(reference(cell_folder, card, "tokenizer")) / "tokenizer.model"
    # Some sources were saved with the cache switched off, which makes generation very slow.
    model.config.use_cache = True
    with replacing_folder(out) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        # The generic class, by the name that transformers 4 knows too: the source's own class may
        # rebuild the pre-tokenizer and then segment differently.
        file = folder / "tokenizer_config.json"
        generic = {"tokenizer_class": "PreTrainedTokenizerFast"}
        write_json(file, json.loads(file.read_text("utf-8")) | generic)
        if sentencepiece.exists():
            shutil.copyfile(sentencepiece, folder / sentencepiece.name)
        files = [path.name for path in folder.iterdir()]
        for name in files:  # safetensors makes its files private
            (folder / name).chmod((folder / "config.json").stat().st_mode)
        write_card(folder, card["job"], files, exported_cell=card["job"]["cell"])
        for name in JOB_FILES:
            if (out / name).exists():
                (out / name).rename(folder / name)
    # vLLM, which may read the export next, takes a share of all the memory of a GPU.
    del model
    gc.collect()
    torch.cuda.empty_cache()
    return out


def _load(cell: Path) -> "tuple[PreTrainedModel, PreTrainedTokenizerFast]":
    """Load a cell where its adapters are merged fastest: on a GPU, if the model fits into it."""
    import torch

    try:
        return load_cell(cell, device=device())
    except torch.OutOfMemoryError:
        return load_cell(cell)


def _check_replaceable(out: Path) -> None:
    """A folder is replaced if it is empty but for a job description, or an earlier export."""
    if not out.exists():
        return
    names = {path.name for path in out.iterdir()} if out.is_dir() else {out.name}
    try:
        is_export = "exported_cell" in json.loads((out / "card.json").read_text("utf-8"))
    except (OSError, ValueError):
        is_export = False
    if not is_export and not names <= set(JOB_FILES):
        raise UserError(f"{out}: holds files that no export wrote; choose another folder")
