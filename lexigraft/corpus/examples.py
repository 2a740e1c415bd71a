"""Examples that encoders are fine-tuned and tested on: labelled texts, tagged words, questions.

All are written in the same form, one JSON object per line:

- `classification`: `{"id", "first", "second" (or null), "label"}`;
- `tagging`: `{"id", "words": […], "tags": […]}`;
- `extractive_qa`: `{"id", "question", "context", "answers": [{"text", "start"}, …]}`.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lexigraft.atomic import write_jsonl
from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.readers import read_rows, text_of, value_of
from lexigraft.errors import UserError

logger = logging.getLogger(__name__)

EXAMPLES = "examples.jsonl"
Example = dict[str, Any]
Row = Mapping[str, Any]


@dataclass
class ExampleCounts:
    """Counts of rows: `blank` lack a text, `unanswered` lack an answer in their text."""

    read: int = 0
    blank: int = 0
    unanswered: int = 0


def prepare_examples(settings: Row, folder: str | Path) -> tuple[list[str], dict[str, Any]]:
    """Write the examples of one part of a task.

    Parameters
    ----------
    settings
        `kind`, one of those above; `text`: `{"loader": "jsonl", "path"}`, `{"loader": "parquet",
        "path"}` or `{"loader": "datasets", "name", "split", "config", "revision", "data_files"}`;
        `columns`, the table's names for the parts of an example: `first`, `second` (optional) and
        `label`; `words` and `tags`; or `question`, `context`, `answers` and `starts`; `labels`,
        for the first two kinds, the names of the labels in the order of their numbers.
    folder
        Receives `examples.jsonl`.

    Returns
    -------
    files, facts
        The names of the files written, and facts for the card. Rows without text and questions
        without an answer are dropped and counted; so are answers that are not at the position
        that the table gives.
    """
    read, counts = _READERS[settings["kind"]], ExampleCounts()
    columns = settings["columns"]
    examples: list[Example] = []
    for row, where in read_rows(settings["text"], list(columns.values())):
        counts.read += 1
        if example := read(row, where, settings, counts):
            examples.append({"id": f"{counts.read:06d}", **example})
    if not examples:
        raise UserError(f"{folder}: none of {counts.read} rows is an example; check `columns`")
    write_jsonl(Path(folder) / EXAMPLES, examples)
    logger.info("%s: %d examples of %d rows", folder, len(examples), counts.read)
    facts = {"examples": len(examples), "rows": asdict(counts), "labels": settings.get("labels")}
    return [EXAMPLES], facts


def read_examples(folder: str | Path) -> list[Example]:
    """The examples that `prepare_examples` wrote."""
    return [json.loads(line) for line in read_lines(Path(folder) / EXAMPLES)]


def labels_of(folder: str | Path) -> list[str]:
    """Names of the labels of such examples in the order of their numbers; empty for questions."""
    return json.loads((Path(folder) / "card.json").read_text("utf-8"))["labels"] or []


def _labelled(row: Row, where: str, settings: Row, counts: ExampleCounts) -> Example | None:
    columns = settings["columns"]
    first = text_of(row, columns["first"], where).strip()
    second = text_of(row, columns["second"], where).strip() if "second" in columns else None
    if not first or second == "":
        counts.blank += 1
        return None
    label = _label_name(value_of(row, columns["label"], where), settings["labels"], where)
    return {"first": first, "second": second, "label": label}


def _tagged(row: Row, where: str, settings: Row, counts: ExampleCounts) -> Example | None:
    columns = settings["columns"]
    words, tags = (list(value_of(row, columns[part], where)) for part in ("words", "tags"))
    if len(words) != len(tags):
        raise UserError(f"{where}: {len(words)} words and {len(tags)} tags; each word has one")
    # Without white space inside words, which are later joined by spaces.
    kept = [
        ("".join(word.split()), _label_name(tag, settings["labels"], where))
        for word, tag in zip(words, tags, strict=True)
        if word.strip()
    ]
    if not kept:
        counts.blank += 1
        return None
    return {"words": [word for word, _ in kept], "tags": [tag for _, tag in kept]}


def _question(row: Row, where: str, settings: Row, counts: ExampleCounts) -> Example | None:
    columns = settings["columns"]
    question, context = (text_of(row, columns[part], where) for part in ("question", "context"))
    if not question.strip() or not context.strip():
        counts.blank += 1
        return None
    texts, starts = (value_of(row, columns[part], where) or [] for part in ("answers", "starts"))
    if len(texts) != len(starts):
        raise UserError(f"{where}: {len(texts)} answers and {len(starts)} positions of answers")
    answers = [
        {"text": text, "start": int(start)}
        for text, start in zip(texts, starts, strict=True)
        if text and context[int(start) : int(start) + len(text)] == text
    ]
    if not answers:
        counts.unanswered += 1
        return None
    return {"question": question.strip(), "context": context, "answers": answers}


def _label_name(label: Any, labels: list[str], where: str) -> str:
    """The name of a label that a table gives by name or by number."""
    if isinstance(label, int) and 0 <= label < len(labels):
        return labels[label]
    if isinstance(label, str) and label in labels:
        return label
    raise UserError(f"{where}: label {label!r} is none of {', '.join(labels)}; correct `labels`")


_READERS: dict[str, Callable[[Row, str, Row, ExampleCounts], Example | None]] = {
    "classification": _labelled,
    "tagging": _tagged,
    "extractive_qa": _question,
}
