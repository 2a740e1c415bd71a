"""Save a model as a plain Hugging Face folder, which loads without lexigraft."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

    `transformers.AutoModelForCausalLM.from_pretrained(folder)`, or `AutoModelForMaskedLM` for an
    encoder, then computes the same as `model`, and `AutoTokenizer` segments like `tokenizer`.
    `tokenizer_files` is the folder that the tokenizer comes from: its `tokenizer.model`, if any, is
    copied.
    """
    folder = Path(folder)
    # Some sources were saved with the cache switched off, which makes generation very slow.
    model.config.use_cache = True
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # The generic class, under a name that transformers 4 also knows: the source's own class may
    # rebuild the pre-tokenizer and then segment differently.
    file = folder / "tokenizer_config.json"
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    if _adds_nothing(tokenizer):
        settings |= {"add_bos_token": False, "add_eos_token": False}
    write_json(file, json.loads(file.read_text("utf-8")) | settings)
    if tokenizer_files and (pieces := Path(tokenizer_files) / "tokenizer.model").is_file():
        shutil.copyfile(pieces, folder / pieces.name)
    # A tokenizer with several chat templates has a subfolder for them.
    files = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    for name in files:  # safetensors creates private files
        (folder / name).chmod((folder / "config.json").stat().st_mode)
    return files


def _adds_nothing(tokenizer: "PreTrainedTokenizerFast") -> bool:
    """Whether a tokenizer that is not byte-level adds no special tokens to a text.

    Without these settings, llama.cpp begins texts with the BOS token of such a tokenizer. It does
    not for byte-level BPE, for which transformers would drop the post-processor because of them.
    """
    backend = tokenizer.backend_tokenizer
    plain = tokenizer("a", add_special_tokens=False)["input_ids"]
    is_byte_level = type(backend.post_processor).__name__ == "ByteLevel"
    return not is_byte_level and tokenizer("a")["input_ids"] == plain
