"""A task's own test sets, and the answered examples at the beginning of its prompts.

All are written in the same format, one JSON object per line:

- `pairs`: `{"id", "source" (English), "target"}`;
- `articles`: `{"id", "source" (the article), "reference"}`;
- `questions`: `{"id", "question", "context", "answers": [text, …]}`.

An id is the number of the row in its table.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lexigraft.artifacts.atomic import write_jsonl
from lexigraft.corpus.cleaning import CleaningCounts, cleaned_pairs, repair
from lexigraft.corpus.readers import read_articles, read_pairs, read_rows
from lexigraft.corpus.sample_file import TEST_SET
from lexigraft.corpus.tables import list_of, text_of, value_of
from lexigraft.errors import UserError

logger = logging.getLogger(__name__)

Row = dict[str, Any]


def prepare_test_set(
    settings: Mapping[str, Any], folder: str | Path
) -> tuple[list[str], dict[str, Any]]:
    """Write `test_set.jsonl` for a task in one language: its test set, or its answered examples.

    `settings` has `rows`, one of the above; `text`: for pairs, like a language's `parallel`; for
    articles, like its `summarization` (both without texts in packages); for questions, a table (see
    `readers.read_rows`), with `columns` that name its `question`, `context` and `answers` (a text
    or a list); optionally
    `repair`, a subset of `cleaning.REPAIRS`. Texts are cleaned as in a corpus.

    Returns the name of the file, and facts for the card: counts of the rows, including the
    `unanswered` questions, which are dropped.
    """
    cleaning = CleaningCounts()
    read = _questions if settings["rows"] == "questions" else _pairs
    tests = list(read(settings, cleaning))
    rows = [row for row in tests if row]
    if not rows:
        raise UserError(
            f"{folder}: none of {cleaning.read} rows is a valid test; check the columns"
        )
    write_jsonl(Path(folder) / TEST_SET, rows)
    logger.info("%s: %d of %d rows", folder, len(rows), cleaning.read)
    counts = {"cleaning": asdict(cleaning), "unanswered": len(tests) - len(rows)}
    return [TEST_SET], {"tests": len(rows), "rows": counts}


def _pairs(settings: Mapping[str, Any], cleaning: CleaningCounts) -> Iterator[Row]:
    articles, repairs = settings["rows"] == "articles", settings.get("repair", ())
    pairs = (read_articles if articles else read_pairs)(settings["text"])
    target_key = "reference" if articles else "target"
    for source, target in cleaned_pairs(pairs, cleaning, paragraphs=articles, repairs=repairs):
        yield {"id": f"{cleaning.read:04d}", "source": source, target_key: target}


def _questions(settings: Mapping[str, Any], cleaning: CleaningCounts) -> Iterator[Row | None]:
    """Questions as tests; None for a question without an answer."""
    text, columns = settings["text"], settings["columns"]

    def clean(line: str) -> str:
        return repair(line, cleaning, settings.get("repair", ()))

    for row, where in read_rows(text, list(columns.values())):
        cleaning.read += 1
        question = clean(text_of(row, columns["question"], where))
        lines = text_of(row, columns["context"], where).split("\n")
        context = "\n".join(filter(None, map(clean, lines)))
        value = value_of(row, columns["answers"], where)
        is_text = isinstance(value, str)
        texts = [value] if is_text else list_of(row, columns["answers"], where, str)
        answers = list(map(clean, texts))
        if not question or not context:
            cleaning.blank += 1
        elif not any(answers):
            yield None
        else:
            cleaning.kept += 1
            yield {
                "id": f"{cleaning.read:04d}",
                "question": question,
                "context": context,
                "answers": list(dict.fromkeys(filter(None, answers))),
            }
