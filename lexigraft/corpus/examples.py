"""Examples to fine-tune and test encoders: labelled texts, tagged words, questions.

All are written in the same format, one JSON object per line:

- `labels`: `{"id", "first", "second" (or null), "label"}`;
- `tags`: `{"id", "words": […], "tags": […]}`;
- `spans`: `{"id", "question", "context", "answers": [{"text", "start"}, …]}`.
"""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lexigraft.artifacts.atomic import write_jsonl
from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.readers import read_rows
from lexigraft.corpus.tables import list_of, text_of, value_of
from lexigraft.errors import UserError

logger = logging.getLogger(__name__)

EXAMPLES = "examples.jsonl"
Example = dict[str, Any]
Row = Mapping[str, Any]


def prepare_examples(settings: Row, folder: str | Path) -> tuple[list[str], dict[str, Any]]:
    """Write `examples.jsonl` for one part of a task; returns its name, and facts for the card.

    `settings` has `rows`, one of the above; `text`, see `readers.read_rows`; `columns`, the table's
    column names for the parts of an example: `first`, `second` (optional) and `label`; `words` and
    `tags`; or `question`, `context`, `answers` and `starts`; `labels`, for the first two, the
    names of the labels in the order of their numbers. Rows without text (`blank`) and questions
    without an answer (`unanswered`) are dropped and counted; answers that do not occur at the
    position given in the table are dropped.
    """
    read, columns = _READERS[settings["rows"]], settings["columns"]
    counts = {"read": 0, "blank": 0, "unanswered": 0}
    examples: list[Example] = []
    for row, where in read_rows(settings["text"], list(columns.values())):
        counts["read"] += 1
        example = read(row, where, columns, settings.get("labels") or [])
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


# Each reader returns an example without its id, or the reason why the row is dropped.


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


def _question(row: Row, where: str, columns: Row, labels: list[str]) -> Example | str:
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


_READERS: dict[str, Callable[[Row, str, Row, list[str]], Example | str]] = {
    "labels": _labelled,
    "tags": _tagged,
    "spans": _question,
}
