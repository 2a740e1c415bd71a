"""What tasks ask beside the tests of a corpus: test sets and answered examples of their own.

On disk they are alike wherever they come from, one JSON object a line:

- `translation`: `{"id", "source" (English), "target"}`;
- `summarization`: `{"id", "source" (the article), "reference"}`;
- `question_answering`: `{"id", "question", "context", "answers": [text, …]}`.

An id is the number of the row in its table.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lexigraft.atomic import write_jsonl
from lexigraft.corpus.cleaning import Counts, cleaned_pairs, repair
from lexigraft.corpus.loaders import read_articles, read_pairs, read_rows
from lexigraft.corpus.readers import text_of, value_of
from lexigraft.corpus.squad_json import squad_rows
from lexigraft.errors import UserError

logger = logging.getLogger(__name__)

ASKED = "asked.jsonl"
Row = dict[str, Any]


@dataclass
class Rows:
    """What became of the rows: `cleaning` as for all text; `unanswered` questions are dropped."""

    cleaning: Counts = field(default_factory=Counts)
    unanswered: int = 0


def prepare_asked(
    settings: Mapping[str, Any], folder: str | Path
) -> tuple[list[str], dict[str, Any]]:
    """Write the test set of a task in one language, or its answered examples.

    Parameters
    ----------
    settings
        `kind`, one of those above, and `text`: of translation what a language's `parallel` takes,
        of summarization what its `summarization` takes, both without catalogues; of questions
        `{"loader": "squad", "path"}`, a file in SQuAD's layout, or a table, see `read_rows`, of
        which `columns` says where `question`, `context` and `answers` (a text, or several) are;
        `repair`, if anything, what to repair beside what always is (`encoding_guards.REPAIRS`).
    folder
        Gets `asked.jsonl`.

    Returns
    -------
    files, facts
        The file written, and what the card says. Texts are cleaned as those of a corpus are.

    Raises
    ------
    UserError
        The text cannot be read, or nothing of it is left.
    """
    rows = Rows()
    asked = list(_READERS[settings["kind"]](settings, rows))
    if not asked:
        raise UserError(
            f"{folder}: none of {rows.cleaning.read} rows can be asked about; check the columns"
        )
    write_jsonl(Path(folder) / ASKED, asked)
    logger.info("%s: %d of %d rows", folder, len(asked), rows.cleaning.read)
    return [ASKED], {"asked": len(asked), "rows": asdict(rows)}


def _pairs(settings: Mapping[str, Any], rows: Rows) -> Iterator[Row]:
    counts, repairs = rows.cleaning, settings.get("repair", ())
    for source, target in cleaned_pairs(read_pairs(settings["text"]), counts, repairs=repairs):
        yield {"id": f"{counts.read:04d}", "source": source, "target": target}


def _articles(settings: Mapping[str, Any], rows: Rows) -> Iterator[Row]:
    counts, repairs = rows.cleaning, settings.get("repair", ())
    pairs = read_articles(settings["text"])
    for source, target in cleaned_pairs(pairs, counts, paragraphs=True, repairs=repairs):
        yield {"id": f"{counts.read:04d}", "source": source, "reference": target}


def _questions(settings: Mapping[str, Any], rows: Rows) -> Iterator[Row]:
    text, columns, counts = settings["text"], settings["columns"], rows.cleaning

    def plain(line: str) -> str:
        return repair(line, counts, settings.get("repair", ()))

    squad = text["loader"] == "squad"
    table = squad_rows(text["path"]) if squad else read_rows(text, list(columns.values()))
    for row, where in table:
        counts.read += 1
        question = plain(text_of(row, columns["question"], where))
        lines = text_of(row, columns["context"], where).split("\n")
        context = "\n".join(filter(None, map(plain, lines)))
        written = value_of(row, columns["answers"], where) or []
        answers = list(map(plain, [written] if isinstance(written, str) else written))
        if not question or not context:
            counts.blank += 1
        elif not any(answers):
            rows.unanswered += 1
        else:
            counts.kept += 1
            yield {
                "id": f"{counts.read:04d}",
                "question": question,
                "context": context,
                "answers": list(dict.fromkeys(filter(None, answers))),
            }


_READERS: dict[str, Callable[[Mapping[str, Any], Rows], Iterator[Row]]] = {
    "translation": _pairs,
    "summarization": _articles,
    "question_answering": _questions,
}
