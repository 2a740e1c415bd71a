"""Questions in SQuAD's layout (Rajpurkar et al. 2016), which MLQA and XQuAD also have."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from lexigraft.corpus.loader import Loader, Rows, RowShard
from lexigraft.errors import UserError
from lexigraft.setting_types import LocalPath
from lexigraft.settings import Settings


class SquadQuestions(Settings):
    """A file in SQuAD's layout."""

    loader: Literal["squad"]
    path: LocalPath


def _rows(text: Mapping[str, Any], _: list[str] | None) -> list[RowShard]:
    return [lambda: _questions(text["path"])]


def _questions(path: str | Path) -> Rows:
    """Each question as a row, as in the versions of these data sets on the hub.

    A file is `{"data": [{"paragraphs": [{"context", "qas": [{"id", "question", "answers": [{"text",
    "answer_start"}, …]}, …]}, …]}, …]}`, a row `{"id", "question", "context", "answers": {"text":
    […], "answer_start": […]}}`.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON ({error})") from None
    try:
        rows = list(_flat(content))
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{path}: not in SQuAD's format ({error}); it must have data, paragraphs, context, "
            "qas, question and answers"
        ) from None
    return ((row, f"{path}: question {row['id']}") for row in rows)


def _flat(content: Any) -> Iterator[dict[str, Any]]:
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                answers = question["answers"]
                yield {
                    "id": question["id"],
                    "question": question["question"],
                    "context": paragraph["context"],
                    "answers": {
                        key: [answer[key] for answer in answers] for key in ("text", "answer_start")
                    },
                }


LOADER = Loader(questions=(SquadQuestions,), read_rows=_rows)
