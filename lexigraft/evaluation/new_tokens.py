"""Tells the tokens that a cell's vocabulary added from those that its source model had."""

import json
from collections.abc import Iterable, Set
from pathlib import Path


def new_token_ids_of_cell(cell: str | Path) -> frozenset[int]:
    """Ids of the tokens of a trained cell that its source vocabulary does not have.

    None where the vocabulary was not changed. The cell's card names the folder of its tokenizer,
    and a changed tokenizer lies beside a `vocabulary.json`.

    Raises
    ------
    UserError
        The cell has no readable card, or its tokenizer is gone.
    """
    from lexigraft.training.store import read_card, reference

    folder = Path(cell)
    return new_token_ids(reference(folder, read_card(folder), "tokenizer"))


def new_token_ids(vocabulary: str | Path) -> frozenset[int]:
    """Ids of the new tokens that the `vocabulary.json` of a folder lists; none without the file."""
    file = Path(vocabulary) / "vocabulary.json"
    if not file.exists():
        return frozenset()
    described = json.loads(file.read_text(encoding="utf-8"))
    return frozenset(token["id"] for token in described["new_tokens"])


def count_new(tokens: Iterable[int], new: Set[int]) -> int:
    """How many of the tokens are new."""
    return sum(token in new for token in tokens)
