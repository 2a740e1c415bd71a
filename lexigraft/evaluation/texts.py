"""Read, draw and group the rows and texts on which cells are measured."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from lexigraft.artifacts.records import read_jsonl
from lexigraft.corpus.contamination import letters
from lexigraft.corpus.sample_file import TEST_SET
from lexigraft.errors import UserError
from lexigraft.evaluation.task_kinds import CorpusTests
from lexigraft.randomness import generator

Item = TypeVar("Item")
Row = dict[str, Any]


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
    return read_jsonl(Path(corpus) / "tasks" / f"{tests.file}.jsonl")


def read_test_set(job: dict[str, Any], part: str, language: str | None = None) -> list[Row] | None:
    """The rows of a task's own `tests` or `shots`; None if it uses those of the corpus.

    `language` selects a language if the task has several.
    """
    folders = job["inputs"].get("test_sets", {}).get(part)
    if not folders:
        return None
    folder = folders[language] if language else next(iter(folders.values()))
    return read_jsonl(Path(folder) / TEST_SET)


def read_own_or_corpus_tests(job: dict[str, Any], corpus_tests: CorpusTests) -> list[Row]:
    """The rows of a task's own `tests`, or those of the corpus; a UserError if there are none."""
    corpus = job["inputs"]["corpus"]
    rows = read_test_set(job, "tests") or task_rows(corpus, corpus_tests)
    if not rows:
        raise UserError(
            f"{corpus}/tasks/{corpus_tests.file}.jsonl: no {corpus_tests.rows}; give the language "
            f"a {corpus_tests.key} source in config/languages.yaml or remove {corpus_tests.file} "
            "from the study"
        )
    return rows


def draw(rows: list[Item], count: int | None, job: dict[str, Any], what: str) -> list[Item]:
    """Draw `count` rows without replacement, keeping their order; all if it is None or too large.

    The seed depends on language, task and run but not on the cell: all cells of a run are measured
    on the same rows, so their differences are paired, and the rows of two runs differ.
    """
    if count is None or count >= len(rows):
        return list(rows)
    chosen = generator(*job["seed"], what).choice(len(rows), size=count, replace=False)
    return [rows[index] for index in sorted(chosen.tolist())]


def examples_and_tests(
    job: dict[str, Any],
    tests: list[Row],
    shots: int,
    texts: tuple[str, ...],
    language: str = "",
    first: bool = False,
) -> tuple[list[Row], list[Row]]:
    """Draw the examples of a run, and drop tests that share a text with an example.

    All prompts of a run, for all cells, begin with the same examples, from the task's own `shots`
    or from the tests; with `first`, those of every run. `texts` are the keys of the texts by which
    rows are compared, ignoring case, digits and punctuation. `language` names the draw if a run has
    several languages. Raises `UserError` if there are too few examples, or if no tests are left.
    """
    if not shots:
        return [], tests
    where = f"config/tasks.yaml: task '{job['task']}': shots"
    pool = read_test_set(job, "shots", language or None)
    pool = tests if pool is None else pool
    if len(pool) < shots:
        raise UserError(f"{where} is {shots}, but there are only {len(pool)} examples; lower it")
    examples = pool[:shots] if first else draw(pool, shots, job, f"shots {language}".strip())
    example_letters = {letters(row[key]) for row in examples for key in texts}
    remaining = [
        row for row in tests if example_letters.isdisjoint(letters(row[key]) for key in texts)
    ]
    if not remaining:
        raise UserError(
            f"{where}: {shots} examples leave none of {len(tests)} tests; lower it, or take the "
            "examples from a separate text (examples.shots)"
        )
    return examples, remaining


def new_token_ids(vocabulary: str | Path) -> frozenset[int]:
    """Ids of the tokens that the `vocabulary.json` of an adapted tokenizer lists as new."""
    file = Path(vocabulary) / "vocabulary.json"
    if not file.exists():
        return frozenset()
    described = json.loads(file.read_text(encoding="utf-8"))
    return frozenset(token["id"] for token in described["new_tokens"])


def group_rows(rows: Sequence[Item], groups: int = 1000) -> list[list[Item]]:
    """Groups of one row each or, for more than `groups` rows, of every n-th row, n `groups`.

    A bootstrap over so many groups is as good as one over the rows. The grouping depends only on
    the positions of rows, so that groups are paired in the same way as sentences.
    """
    return [list(rows[first::groups]) for first in range(min(groups, len(rows)))]
