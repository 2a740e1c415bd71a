"""Questions in SQuAD's layout (Rajpurkar et al. 2016), which MLQA and XQuAD also have."""

import json
from collections.abc import Mapping
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


def _questions(path: str | Path) -> Rows:
    """Each question as a row, as in the versions of these data sets on the hub.

    The answers of a row are `{"text": […], "answer_start": […]}`.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
        rows = [
            {
                "id": question["id"],
                "question": question["question"],
                "context": paragraph["context"],
                "answers": {
                    key: [answer[key] for answer in question["answers"]]
                    for key in ("text", "answer_start")
                },
            }
            for article in content["data"]
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
        ]
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: not a file in SQuAD's format ({error}), JSON with data, paragraphs, context, "
            "qas, question and answers"
        ) from None
    return ((row, f"{path}: question {row['id']}") for row in rows)


def _rows(text: Mapping[str, Any], _: list[str] | None) -> list[RowShard]:
    return [lambda: _questions(text["path"])]


LOADER = Loader(questions=(SquadQuestions,), read_rows=_rows)
