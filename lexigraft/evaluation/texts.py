"""Texts that cells are measured on: read from a corpus folder, drawn, tokenized, and grouped."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lexigraft.errors import UserError
from lexigraft.randomness import generator

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


Row = TypeVar("Row")


def sentences(corpus: str | Path, name: str) -> list[str]:
    """The lines of `train.txt`, `heldout.txt` or `english.txt` of a corpus folder.

    Raises
    ------
    UserError
        The file is missing.
    """
    return _lines(Path(corpus) / f"{name}.txt")


def member_sentences(corpus: str | Path) -> dict[str, list[str]]:
    """The held-out lines of each language of a group; none where the corpus is of one language."""
    files = sorted((Path(corpus) / "members").glob("*/heldout.txt"))
    return {file.parent.name: _lines(file) for file in files}


def translation_pairs(corpus: str | Path) -> list[dict[str, str]]:
    """The rows `{"id", "source", "target"}` of `tasks/translation.jsonl`; none without the file."""
    return _rows(corpus, "translation")


def summarization_pairs(corpus: str | Path) -> list[dict[str, str]]:
    """The rows `{"id", "source", "reference"}` of `tasks/summarization.jsonl`; none without it."""
    return _rows(corpus, "summarization")


def draw(rows: list[Row], count: int | None, job: dict[str, Any], what: str) -> list[Row]:
    """Draw `count` rows without replacement, in their old order; all if `count` is none or more.

    The seed of an evaluation names language, task and run but no cell: all cells of a run are
    measured on the same rows, so their differences are paired, and the rows of two runs differ.
    """
    if count is None or count >= len(rows):
        return list(rows)
    chosen = generator(*job["seed"], what).choice(len(rows), size=count, replace=False)
    return [rows[index] for index in sorted(chosen.tolist())]


def _lines(file: Path) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{file}: missing; run the corpus stage of this language again") from None
    # Only "\n" ends a sentence here: splitlines() would also split at U+2028 and the like.
    return [line for line in text.split("\n") if line]


def _rows(corpus: str | Path, task: str) -> list[dict[str, str]]:
    file = Path(corpus) / "tasks" / f"{task}.jsonl"
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]


# A tokenizer keeps about a hundred bytes per token of all that it gets at once: several
# gigabytes for a hundred thousand sentences in bytes.
_BATCH = 1000


def tokenize_plain(
    tokenizer: "PreTrainedTokenizerFast", texts: Sequence[str]
) -> Iterator[list[int]]:
    """Yield the ids of each text, without special tokens."""
    for first in range(0, len(texts), _BATCH):
        batch = list(texts[first : first + _BATCH])
        yield from tokenizer(batch, add_special_tokens=False, verbose=False)["input_ids"]


# A bootstrap over so many groups of sentences is as good as one over the sentences.
MOST = 1000


def group_rows(rows: Sequence[Row], most: int = MOST) -> list[list[Row]]:
    """Rows by themselves or, of more than `most`, so many groups: every `most`-th one together.

    The same rows are together whoever measures them, so that groups are paired as sentences are.
    """
    return [list(rows[at::most]) for at in range(min(most, len(rows)))]
