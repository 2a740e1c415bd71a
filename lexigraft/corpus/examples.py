"""Rows of a task's tables as JSON lines: test sets, answered examples, and examples for encoders.

- `pairs`: `{"id", "source" (English), "target"}`;
- `articles`: `{"id", "source" (the article), "reference"}`;
- `questions`: `{"id", "question", "context", "answers": [text, …]}`;
- `labels`: `{"id", "first", "second" (or null), "label"}`;
- `tags`: `{"id", "words": […], "tags": […]}`;
- `spans`: `{"id", "question", "context", "answers": [{"text", "start"}, …]}`.

An id is the number of the row in its table.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lexigraft.artifacts.atomic import write_jsonl
from lexigraft.corpus.cleaning import CleaningCounts, cleaned_pairs, repair
from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.readers import (
    list_of,
    read_articles,
    read_pairs,
    read_rows,
    text_of,
    value_of,
)
from lexigraft.corpus.sample_file import TEST_SET
from lexigraft.errors import UserError

logger = logging.getLogger(__name__)

EXAMPLES = "examples.jsonl"
Example = dict[str, Any]
Row = Mapping[str, Any]


def prepare_test_set(settings: Row, folder: str | Path) -> tuple[list[str], dict[str, Any]]:
    """Write `test_set.jsonl` for a task in one language; returns its name, and facts for the card.

    `settings` has `rows`: `pairs`, `articles` or `questions`; `text`: like a language's `parallel`
    or `summarization` (without texts in packages), or for questions a table with `columns` that
    name its `question`, `context` and `answers` (a text or a list); optionally `repair`. Texts are
    cleaned as in a corpus. Questions without an answer (`unanswered`) are dropped.
    """
    form, repairs, cleaning = settings["rows"], settings.get("repair", ()), CleaningCounts()
    if form == "questions":
        tests = list(_questions(settings, cleaning))
    else:
        is_article, key = form == "articles", "reference" if form == "articles" else "target"
        pairs = (read_articles if is_article else read_pairs)(settings["text"])
        pairs = cleaned_pairs(pairs, cleaning, paragraphs=is_article, repairs=repairs)
        tests = [
            {"id": f"{cleaning.read:04d}", "source": source, key: target}
            for source, target in pairs
        ]
    rows = [row for row in tests if row]
    if not rows:
        raise UserError(
            f"{folder}: none of {cleaning.read} rows is a valid test; check the columns"
        )
    write_jsonl(Path(folder) / TEST_SET, rows)
    logger.info("%s: %d of %d rows", folder, len(rows), cleaning.read)
    counts = {"cleaning": asdict(cleaning), "unanswered": len(tests) - len(rows)}
    return [TEST_SET], {"tests": len(rows), "rows": counts}


def prepare_examples(settings: Row, folder: str | Path) -> tuple[list[str], dict[str, Any]]:
    """Write `examples.jsonl` for one part of a task; returns its name, and facts for the card.

    `settings` has `rows`: `labels`, `tags` or `spans`; `text`, see `readers.read_rows`; `columns`,
    the table's column names for the parts of an example: `first`, `second` (optional) and `label`;
    `words` and `tags`; or `question`, `context`, `answers` and `starts`; `labels`, for the first
    two, the names of the labels in the order of their numbers. Answers that do not occur at the
    position given in the table are dropped.
    """
    read = {"labels": _labelled, "tags": _tagged, "spans": _answered}[settings["rows"]]
    columns, labels = settings["columns"], settings.get("labels") or []
    counts = {"read": 0, "blank": 0, "unanswered": 0}
    examples: list[Example] = []
    for row, where in read_rows(settings["text"], list(columns.values())):
        counts["read"] += 1
        example = read(row, where, columns, labels)
        if isinstance(example, str):
            counts[example] += 1
        else:
            examples.append({"id": f"{counts['read']:06d}", **example})
    if not examples:
        raise UserError(
            f"{folder}: none of {counts['read']} rows is a valid example; check `columns`"
        )
    write_jsonl(Path(folder) / EXAMPLES, examples)
    logger.info("%s: %d examples of %d rows", folder, len(examples), counts["read"])
    facts = {"examples": len(examples), "rows": counts, "labels": settings.get("labels")}
    return [EXAMPLES], facts


def read_examples(folder: str | Path) -> list[Example]:
    """The examples that `prepare_examples` wrote."""
    return [json.loads(line) for line in read_lines(Path(folder) / EXAMPLES)]


def labels_of(folder: str | Path) -> list[str]:
    """Names of the labels of these examples in the order of their numbers; empty for questions."""
    return json.loads((Path(folder) / "card.json").read_text("utf-8"))["labels"] or []


def _questions(settings: Row, cleaning: CleaningCounts) -> Iterator[Example | None]:
    """Questions as tests; None for a question without an answer."""
    columns = settings["columns"]

    def clean(line: str) -> str:
        return repair(line, cleaning, settings.get("repair", ()))

    for row, where in read_rows(settings["text"], list(columns.values())):
        cleaning.read += 1
        question = clean(text_of(row, columns["question"], where))
        lines = text_of(row, columns["context"], where).split("\n")
        context = "\n".join(filter(None, map(clean, lines)))
        value = value_of(row, columns["answers"], where)
        is_text = isinstance(value, str)
        texts = [value] if is_text else list_of(row, columns["answers"], where, str)
        answers = list(dict.fromkeys(filter(None, map(clean, texts))))
        if not question or not context:
            cleaning.blank += 1
        elif not answers:
            yield None
        else:
            cleaning.kept += 1
            example = {"question": question, "context": context, "answers": answers}
            yield {"id": f"{cleaning.read:04d}", **example}


# These return an example without its id, or the reason why the row is dropped.


def _labelled(row: Row, where: str, columns: Row, labels: list[str]) -> Example | str:
    first = text_of(row, columns["first"], where).strip()
    second = text_of(row, columns["second"], where).strip() if "second" in columns else None
    if not first or second == "":
        return "blank"
    label = _label_name(value_of(row, columns["label"], where), labels, where)
    return {"first": first, "second": second, "label": label}


def _tagged(row: Row, where: str, columns: Row, labels: list[str]) -> Example | str:
    words = list_of(row, columns["words"], where, str)
    tags = list_of(row, columns["tags"], where)
    if len(words) != len(tags):
        raise UserError(
            f"{where}: {len(words)} words but {len(tags)} tags; each word needs one tag"
        )
    tagged = [pair for pair in zip(words, tags, strict=True) if pair[0].strip()]
    if not tagged:
        return "blank"
    return {
        # White space inside words is removed, since words are later joined by spaces.
        "words": ["".join(word.split()) for word, _ in tagged],
        "tags": [_label_name(tag, labels, where) for _, tag in tagged],
    }


def _answered(row: Row, where: str, columns: Row, labels: list[str]) -> Example | str:
    question, context = (text_of(row, columns[part], where) for part in ("question", "context"))
    if not question.strip() or not context.strip():
        return "blank"
    texts = list_of(row, columns["answers"], where, str)
    starts = list_of(row, columns["starts"], where, int)
    if len(texts) != len(starts):
        raise UserError(f"{where}: {len(texts)} answers but {len(starts)} answer positions")
    answers = [
        {"text": text, "start": start}
        for text, start in zip(texts, starts, strict=True)
        if text and context[start : start + len(text)] == text
    ]
    if not answers:
        return "unanswered"
    return {"question": question.strip(), "context": context, "answers": answers}


def _label_name(label: Any, labels: list[str], where: str) -> str:
    """The name of a label that is given in a table as a name or a number."""
    if isinstance(label, int) and 0 <= label < len(labels):
        return labels[label]
    if isinstance(label, str) and label in labels:
        return label
    raise UserError(f"{where}: label {label!r} is not one of {', '.join(labels)}; correct `labels`")
