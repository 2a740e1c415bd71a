"""Roles of special tokens that a tokenizer's folder leaves to a class of transformers."""

import inspect
import json
from pathlib import Path
from typing import Any

_ROLES = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)


def roles_of(folder: str | Path) -> dict[str, str]:
    """Role -> token, for a folder whose files name none at all; empty for any other.

    Folders of the first years (roberta-base, bert-base, gpt2) hold the tokens, and leave it to the
    class of their model's tokenizer to know which one begins a text, masks or pads: they are
    defaults of its arguments.
    """
    folder = Path(folder)
    model_type = _json(folder / "config.json").get("model_type")
    named = _json(folder / "tokenizer_config.json") | _json(folder / "special_tokens_map.json")
    if model_type is None or any(named.get(role) for role in _ROLES):
        return {}
    from transformers.models.auto.tokenization_auto import (
        TOKENIZER_MAPPING_NAMES,
        tokenizer_class_from_name,
    )

    name = TOKENIZER_MAPPING_NAMES.get(model_type)
    found = tokenizer_class_from_name(name) if name else None
    arguments = inspect.signature(found.__init__).parameters if found else {}
    defaults = {role: arguments[role].default for role in _ROLES if role in arguments}
    held = _held(_json(folder / "tokenizer.json"))
    return {role: str(token) for role, token in defaults.items() if str(token) in held}


def _held(content: dict[str, Any]) -> set[str]:
    """Every token of a `tokenizer.json`."""
    vocabulary = content.get("model", {}).get("vocab", {})
    pieces = vocabulary if isinstance(vocabulary, dict) else [piece for piece, _ in vocabulary]
    return {*pieces, *(token["content"] for token in content.get("added_tokens", ()))}


def _json(file: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where there is none, or none that can be read."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
