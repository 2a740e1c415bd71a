"""Save a model as a plain Hugging Face folder, which loads without lexigraft."""

import json
import shutil
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.artifacts.atomic import write_json
from lexigraft.errors import UserError
from lexigraft.source.document_start import DOCUMENT_START
from lexigraft.source.tokenizer import GENERIC_CLASSES, SETTINGS, have_same_settings, settings_of

# The file that folders for some model types have, see `write_tokenizer`.
TOKENIZER_MODULE = "exported_tokenizer.py"
_CODE = '''"""Tells AutoTokenizer to follow tokenizer.json.

This file is named in tokenizer_config.json ("auto_map"). Otherwise transformers 5 would load the
class of the model type, which has its own pre-tokenizer and normalizer. With
trust_remote_code=True it loads this class, and without it the base class, which is the same.
"""

from transformers import PreTrainedTokenizerFast


class ExportedTokenizer(PreTrainedTokenizerFast):
    """The tokenizer as tokenizer.json defines it."""
'''


def save_model(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    folder: str | Path,
    tokenizer_files: str | Path | None = None,
) -> list[str]:
    """Write a model and its tokenizer to a folder; returns the files, relative to it.

    `tokenizer_files` is the folder that the tokenizer comes from: its `tokenizer.model`, if any, is
    copied.
    """
    folder = Path(folder)
    # Some sources were saved with the cache switched off, which makes generation very slow.
    model.config.use_cache = True
    model.save_pretrained(folder)
    write_tokenizer(tokenizer, folder)
    if tokenizer_files and (pieces := Path(tokenizer_files) / "tokenizer.model").is_file():
        shutil.copyfile(pieces, folder / pieces.name)
    # A tokenizer with several chat templates has a subfolder for them.
    files = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    for name in files:  # safetensors creates private files
        (folder / name).chmod((folder / "config.json").stat().st_mode)
    return files


def write_tokenizer(
    tokenizer: PreTrainedTokenizerFast, folder: str | Path, config: Path | None = None
) -> None:
    """Write a tokenizer to a folder, which `AutoTokenizer` then loads with all its settings.

    The class that `AutoTokenizer` loads depends on the type of the model: `config` is its
    `config.json`, unless that is in the folder.
    """
    folder = Path(folder)
    # These calls also end the padding and truncation of earlier calls, which would be saved.
    plain = tokenizer("a", add_special_tokens=False)["input_ids"]
    adds_nothing = tokenizer("a")["input_ids"] == plain
    tokenizer.save_pretrained(folder)
    file = folder / "tokenizer_config.json"
    settings: dict[str, Any] = json.loads(file.read_text("utf-8"))
    settings.pop("auto_map", None)  # the source's, whose code is not in the folder
    # The generic class, under a name that transformers 4 also knows, and what the source's own
    # class has as a default: that class may rebuild the pre-tokenizer and segment differently.
    settings["tokenizer_class"] = GENERIC_CLASSES[0]
    current = settings_of(tokenizer)
    settings |= {
        name: current[name]
        for name in (*SETTINGS, DOCUMENT_START)
        if name in current and name != "chat_template"
    }
    # transformers 4 cannot load a list under the name that transformers 5 writes.
    if "extra_special_tokens" in settings:
        settings["additional_special_tokens"] = settings.pop("extra_special_tokens")
    # Without these settings, llama.cpp begins texts with the BOS token. It does not for byte-level
    # BPE, for which transformers would drop the post-processor because of them.
    post_processor = tokenizer.backend_tokenizer.post_processor
    if adds_nothing and type(post_processor).__name__ != "ByteLevel":
        settings |= {"add_bos_token": False, "add_eos_token": False}
    write_json(file, settings)
    if config is not None:
        shutil.copyfile(config, folder / config.name)
    if not _loads_alike(tokenizer, folder):
        # transformers 5 ignores the class that a tokenizer for Qwen2 or Qwen3.5 names, unless
        # `auto_map` names one too; it then loads the generic class, without running any code.
        module = folder / TOKENIZER_MODULE
        module.write_text(_CODE, encoding="utf-8")
        settings["auto_map"] = {"AutoTokenizer": [None, f"{module.stem}.ExportedTokenizer"]}
        write_json(file, settings)
        if not _loads_alike(tokenizer, folder):
            raise UserError(
                f"{folder}: AutoTokenizer of this version of transformers does not load the "
                "tokenizer as it was written; install the version that lexigraft requires"
            )
    if config is not None:
        (folder / config.name).unlink()


def _loads_alike(tokenizer: PreTrainedTokenizerFast, folder: Path) -> bool:
    """Whether `AutoTokenizer` reads the same pipeline and settings from a folder."""
    loaded = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    if not isinstance(loaded, PreTrainedTokenizerFast):
        return False
    pipelines = [each.backend_tokenizer.to_str() for each in (tokenizer, loaded)]
    return pipelines[0] == pipelines[1] and have_same_settings(tokenizer, loaded)
