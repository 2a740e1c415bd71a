"""How much disk a trained cell takes, before any like it was trained: what its phases change.

A cell stores its changed tensors in the precision of its source model. What they are follows from
the strategy and from the numbers in the source's card; LoRA's factors, of a hundredth of the
parameters, are left out.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workflow.stages import Study
from workflow.stages.cells import way

SAFETENSORS = ".safetensors"


def cell_megabytes(study: Study, wildcards: Mapping[str, str]) -> float | None:
    """Megabytes of a cell's changed tensors; None before its source model is prepared."""
    try:
        card = json.loads(
            Path(study.output("prepare_source", source=wildcards["source"]).card).read_text(
                encoding="utf-8"
            )
        )
    except (OSError, ValueError):
        return None
    strategy = study.config["strategies"][wildcards["strategy"]]
    checkpoints = strategy["checkpoints"] if strategy["phases"] else 1
    changed = changed_parameters(card, strategy, rows=_rows(study, wildcards, card))
    return changed * _bytes_per_parameter(card) * checkpoints / 1e6


def changed_parameters(
    card: Mapping[str, Any], strategy: Mapping[str, Any], rows: int | None
) -> float:
    """Parameters that a cell stores.

    Parameters
    ----------
    card
        Of the source: `parameters`, `layers`, `hidden_size`, `rows` and `tied`.
    strategy
        Its settings, with `phases`.
    rows
        Of the new matrices; None for the source's own vocabulary.
    """
    matrices = 1 if card["tied"] else 2
    old = matrices * card["rows"] * card["hidden_size"]
    new = matrices * (rows or card["rows"]) * card["hidden_size"]
    layer = (card["parameters"] - old) / card["layers"]
    trained = {part for phase in strategy["phases"] for part in phase["trainable"] if _named(part)}
    layers = {
        number % card["layers"]
        for phase in strategy["phases"]
        for part in phase["trainable"]
        if not _named(part)
        for number in part["layers"]
    }
    if "all" in trained:
        return card["parameters"] - old + new
    # Matrices with new rows are stored as a whole, trained or not.
    whole = rows is not None or trained & {"embeddings", "head", "new-rows", "outside-layers"}
    return (new if whole else 0) + len(layers) * layer


def _rows(study: Study, wildcards: Mapping[str, str], card: Mapping[str, Any]) -> int | None:
    """Rows of the new matrices, as far as the registry tells."""
    entry = study.config["vocabularies"].get(wildcards["vocabulary"])
    if entry is None:
        return None
    if way(entry) == "expand":
        return card["rows"] + entry["new_tokens"]
    return entry.get("size", card["rows"])


def _bytes_per_parameter(card: Mapping[str, Any]) -> float:
    files = card["files"] | card.get("model_files", {})
    weights = sum(file["bytes"] for name, file in files.items() if name.endswith(SAFETENSORS))
    return weights / card["parameters"]


def _named(part: str | Mapping[str, Any]) -> bool:
    return isinstance(part, str)
