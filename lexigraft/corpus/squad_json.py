"""Questions from files in SQuAD's layout, in which SQuAD, MLQA and XQuAD are published."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lexigraft.errors import UserError


def squad_rows(path: str | Path) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Each question as a row of the tables that the hub has of them, and what messages call it.

    The file is `{"data": [{"paragraphs": [{"context", "qas": [{"id", "question", "answers":
    [{"text", "answer_start"}, …]}, …]}, …]}, …]}` (Rajpurkar et al. 2016); a row is `{"id",
    "question", "context", "answers": {"text": […], "answer_start": […]}}`.

    Raises
    ------
    UserError
        The file is missing, is no JSON, or is laid out otherwise.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error})") from None
    try:
        paragraphs = [one for article in content["data"] for one in article["paragraphs"]]
        rows = [_row(paragraph, asked) for paragraph in paragraphs for asked in paragraph["qas"]]
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{path}: not laid out as SQuAD's files are ({error}); it must have data, paragraphs, "
            "context, qas, question and answers"
        ) from None
    return ((row, f"{path}: question {row['id']}") for row in rows)


def _row(paragraph: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    answers = asked["answers"]
    return {
        "id": asked["id"],
        "question": asked["question"],
        "context": paragraph["context"],
        "answers": {key: [answer[key] for answer in answers] for key in ("text", "answer_start")},
    }
