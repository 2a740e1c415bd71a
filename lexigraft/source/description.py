"""What a source model is, in the numbers that tables and cards show."""

import json
import math
from pathlib import Path
from typing import Any

from lexigraft.source.model import is_tied, load_config, load_tokenizer, matrix_rows
from lexigraft.source.weights import tensors


def describe_model(folder: str | Path) -> dict[str, Any]:
    """Architecture, sizes and tokenizer family of a model folder, from its headers.

    `parameters` counts what the files hold, so a tied matrix counts once. `vocabulary_size` is
    the highest token id plus one; `rows` are the rows of the input matrix, padding included.
    """
    config = load_config(folder)
    text = config.get_text_config()
    tied = is_tied(folder)
    held = tensors(folder)
    vocabulary = load_tokenizer(folder).get_vocab()
    architectures = config.architectures or ["unknown"]
    return {
        "architecture": architectures[0],
        "parameters": sum(math.prod(shape) for _, shape in held.values()),
        "layers": text.num_hidden_layers,
        "hidden_size": text.hidden_size,
        "rows": matrix_rows(folder),
        "vocabulary_size": max(vocabulary.values()) + 1,
        "tied": tied,
        "tokenizer_family": tokenizer_family(folder),
    }


def tokenizer_family(folder: str | Path) -> str:
    """The family of the tokenizer in a folder, see `family_of`."""
    return family_of(json.loads((Path(folder) / "tokenizer.json").read_text(encoding="utf-8")))


def family_of(content: dict[str, Any]) -> str:
    """The family of a tokenizer, by the content of its `tokenizer.json`.

    `byte-level BPE`, `byte-fallback BPE`, `BPE`, `Unigram`, `WordPiece` or `WordLevel`.
    """
    model = content["model"]
    # Files of old versions name no type, and only BPE has merges.
    kind = model.get("type") or ("BPE" if "merges" in model else "WordPiece")
    if kind != "BPE":
        return kind
    if _mentions_byte_level(content.get("pre_tokenizer")):
        return "byte-level BPE"
    return "byte-fallback BPE" if model.get("byte_fallback") else "BPE"


def _mentions_byte_level(step: dict | None) -> bool:
    """Whether a pre-tokenizer is byte-level or a sequence that holds one."""
    if not step:
        return False
    inner = step.get("pretokenizers", [])
    return step.get("type") == "ByteLevel" or any(_mentions_byte_level(part) for part in inner)
