"""What cells are measured on: rows and texts of a corpus folder, drawn, and grouped."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from lexigraft.randomness import generator

Row = TypeVar("Row")


def lines_of(file: Path) -> list[str]:
    """The lines of a file that are not empty; only a line feed ends one.

    `splitlines` would also split at U+2028 and the like.
    """
    return [line for line in file.read_text(encoding="utf-8").split("\n") if line]


def member_sentences(corpus: str | Path) -> dict[str, list[str]]:
    """The held-out lines of each language of a group; none where the corpus is of one language."""
    files = sorted((Path(corpus) / "members").glob("*/heldout.txt"))
    return {file.parent.name: lines_of(file) for file in files}


def task_rows(corpus: str | Path, kind: str) -> list[dict[str, str]]:
    """The rows of `tasks/<kind>.jsonl` of a corpus folder; none without the file.

    They have `id`, `source`, and `target` (translation) or `reference` (summarization).
    """
    file = Path(corpus) / "tasks" / f"{kind}.jsonl"
    return [json.loads(line) for line in lines_of(file)] if file.exists() else []


def draw(rows: list[Row], count: int | None, job: dict[str, Any], what: str) -> list[Row]:
    """Draw `count` rows without replacement, in their old order; all if `count` is none or more.

    The seed of an evaluation names language, task and run but no cell: all cells of a run are
    measured on the same rows, so their differences are paired, and the rows of two runs differ.
    """
    if count is None or count >= len(rows):
        return list(rows)
    chosen = generator(*job["seed"], what).choice(len(rows), size=count, replace=False)
    return [rows[index] for index in sorted(chosen.tolist())]


def new_token_ids(vocabulary: str | Path) -> frozenset[int]:
    """Ids of the tokens that the `vocabulary.json` of a folder lists as new; none without it.

    A tokenizer that was changed lies beside one.
    """
    file = Path(vocabulary) / "vocabulary.json"
    if not file.exists():
        return frozenset()
    described = json.loads(file.read_text(encoding="utf-8"))
    return frozenset(token["id"] for token in described["new_tokens"])


def group_rows(rows: Sequence[Row], most: int = 1000) -> list[list[Row]]:
    """Rows by themselves or, of more than `most`, so many groups: every `most`-th one together.

    A bootstrap over so many groups is as good as one over the rows. The same rows are together
    whoever measures them, so that groups are paired as sentences are.
    """
    return [list(rows[at::most]) for at in range(min(most, len(rows)))]
