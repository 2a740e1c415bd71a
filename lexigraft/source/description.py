"""Description of a source model for tables and cards: architecture, sizes, tokenizer family."""

import json
import math
from pathlib import Path
from typing import Any

from lexigraft.source.model import is_tied, load_config, load_tokenizer, matrix_rows
from lexigraft.source.weights import tensors


def describe_model(folder: str | Path) -> dict[str, Any]:
    """Architecture, sizes and tokenizer family of a model folder, from its file headers.

    `parameters` is the number in the files, where a tied matrix counts once. `vocabulary_size` is
    the highest token id plus one; `rows` are the rows of the input matrix, including padding.
    """
    config = load_config(folder)
    text = config.get_text_config()
    vocabulary = load_tokenizer(folder).get_vocab()
    return {
        "architecture": (config.architectures or ["unknown"])[0],
        "parameters": sum(math.prod(shape) for _, shape in tensors(folder).values()),
        "layers": text.num_hidden_layers,
        "hidden_size": text.hidden_size,
        "rows": matrix_rows(folder),
        "vocabulary_size": max(vocabulary.values()) + 1,
        "tied": is_tied(folder),
        "tokenizer_family": tokenizer_family(folder),
    }


def tokenizer_family(folder: str | Path) -> str:
    """The family of the tokenizer in a folder, see `family_of`."""
    return family_of(json.loads((Path(folder) / "tokenizer.json").read_text(encoding="utf-8")))


def family_of(content: dict[str, Any]) -> str:
    """The family of a tokenizer, from the content of its `tokenizer.json`.

    `byte-level BPE`, `byte-fallback BPE`, `BPE`, `Unigram`, `WordPiece` or `WordLevel`.
    """
    model = content["model"]
    # Old files have no type; only BPE has merges.
    kind = model.get("type") or ("BPE" if "merges" in model else "WordPiece")
    if kind != "BPE":
        return kind
    if _is_byte_level(content.get("pre_tokenizer")):
        return "byte-level BPE"
    return "byte-fallback BPE" if model.get("byte_fallback") else "BPE"


def _is_byte_level(step: dict | None) -> bool:
    """Whether a pre-tokenizer is byte-level, or a sequence that contains one that is."""
    if not step:
        return False
    inner = step.get("pretokenizers", [])
    return step.get("type") == "ByteLevel" or any(_is_byte_level(part) for part in inner)
