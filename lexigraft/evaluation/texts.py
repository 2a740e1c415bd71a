"""Read, draw and group the rows and texts of a corpus folder on which cells are measured."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from lexigraft.evaluation.task_kinds import CorpusTests
from lexigraft.randomness import generator

Row = TypeVar("Row")


def lines_of(file: Path) -> list[str]:
    """The non-empty lines of a file; only a line feed ends a line.

    `splitlines` would also split at U+2028 and similar characters.
    """
    return [line for line in file.read_text(encoding="utf-8").split("\n") if line]


def member_sentences(corpus: str | Path) -> dict[str, list[str]]:
    """The held-out lines of each language of a group; none for the corpus of one language."""
    files = sorted((Path(corpus) / "members").glob("*/heldout.txt"))
    return {file.parent.name: lines_of(file) for file in files}


def task_rows(corpus: str | Path, tests: CorpusTests) -> list[dict[str, str]]:
    """The rows of tests in a corpus folder; none without their file.

    They have `id`, `source`, and `target` (translations) or `reference` (articles).
    """
    file = Path(corpus) / "tasks" / f"{tests.file}.jsonl"
    return [json.loads(line) for line in lines_of(file)] if file.exists() else []


def draw(rows: list[Row], count: int | None, job: dict[str, Any], what: str) -> list[Row]:
    """Draw `count` rows without replacement, keeping their order; all if it is None or too large.

    The seed of an evaluation is derived from language, task and run but not from the cell: all
    cells of a run are measured on the same rows, so their differences are paired, and the rows of
    two runs differ.
    """
    if count is None or count >= len(rows):
        return list(rows)
    chosen = generator(*job["seed"], what).choice(len(rows), size=count, replace=False)
    return [rows[index] for index in sorted(chosen.tolist())]


def new_token_ids(vocabulary: str | Path) -> frozenset[int]:
    """Ids of the tokens that the `vocabulary.json` in a folder lists as new; none without it.

    The folder of an adapted tokenizer has this file.
    """
    file = Path(vocabulary) / "vocabulary.json"
    if not file.exists():
        return frozenset()
    described = json.loads(file.read_text(encoding="utf-8"))
    return frozenset(token["id"] for token in described["new_tokens"])


def group_rows(rows: Sequence[Row], groups: int = 1000) -> list[list[Row]]:
    """Groups of one row each or, for more than `groups` rows, this number of groups.

    A group has every n-th row, for n `groups`. A bootstrap over so many groups is as good as one
    over the rows. The grouping depends only on the positions of rows, so that groups are paired in
    the same way as sentences.
    """
    return [list(rows[first::groups]) for first in range(min(groups, len(rows)))]
