"""Saving a model as a plain Hugging Face folder, which needs no lexigraft to load."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from lexigraft.atomic import write_json

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


def save_model(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    folder: str | Path,
    tokenizer_files: str | Path | None = None,
) -> list[str]:
    """Write a model and its tokenizer to a folder; returns the files, relative to it.

    `transformers.AutoModelForCausalLM.from_pretrained(folder)`, of an encoder
    `AutoModelForMaskedLM`, then computes what `model` does, and `AutoTokenizer` segments as
    `tokenizer` does. `tokenizer_files` is the folder that the tokenizer comes from: its
    `tokenizer.model`, if any, is copied.
    """
    folder = Path(folder)
    # Some sources were saved with the cache switched off, which makes generation very slow.
    model.config.use_cache = True
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # The generic class, by the name that transformers 4 knows too: the source's own class may
    # rebuild the pre-tokenizer and then segment differently.
    file = folder / "tokenizer_config.json"
    generic = {"tokenizer_class": "PreTrainedTokenizerFast"}
    write_json(file, json.loads(file.read_text("utf-8")) | generic)
    if tokenizer_files and (pieces := Path(tokenizer_files) / "tokenizer.model").is_file():
        shutil.copyfile(pieces, folder / pieces.name)
    # A tokenizer with several chat templates has a folder of them.
    files = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    for name in files:  # safetensors makes its files private
        (folder / name).chmod((folder / "config.json").stat().st_mode)
    return files
