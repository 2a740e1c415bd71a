"""The source tokens that new tokens consist of, or that are nearest to them."""

import re
from typing import Annotated

from pandas import DataFrame
from pydantic import Field

from lexigraft.report.frame import SEEDED, StudyResults, select
from lexigraft.report.heldout import text_scores, text_tasks
from lexigraft.report.items import Options, table
from lexigraft.report.models import vocabulary_stub
from lexigraft.report.table import Row, Table, TableCell, number

_MOST_PARTS = 5
_BYTE = re.compile(r"\\x([0-9a-f]{2})")


class TokenOptions(Options):
    """The options of a table of new tokens."""

    nearest: Annotated[
        bool,
        Field(
            description="show the source tokens with the most similar vectors, which a new token "
            "copies, by each initializer that looks for them (UnifyVocab, Table 8)"
        ),
    ] = False


@table(
    title="New tokens",
    caption="New tokens and the source tokens that their embedding is a weighted sum of, the "
    "heaviest first, by the initializer with the lowest bits per byte; or the nearest source tokens"
    " with their similarity. The tokens are sampled evenly by frequency and by length.",
    empty="no initializer of this study returns a recipe, or looks for nearest tokens",
    options=TokenOptions,
)
def new_tokens(study: StudyResults) -> Table | None:
    """A row per new token of each vocabulary and initializer."""
    scores = text_scores(study.summary, text_tasks(study))
    content = "nearest" if (nearest := study.item.option("nearest")) else "parts"
    headers, stub = vocabulary_stub(study, initializers=True)
    rows, data = [], []
    for key in dict.fromkeys(fit[:3] for fit in study.examples):
        of_key = dict(zip(SEEDED[:3], key, strict=True))
        best_first = select(scores, **of_key).sort_values("mean", kind="stable")["initializer"]
        recipes = {
            name: known
            for name in dict.fromkeys([*best_first, *study.initializers])
            for fit, examples in study.examples.items()
            if fit[:4] == (*key, name) and (known := [e for e in examples if e.get(content)])
        }
        for name in recipes if nearest else [*recipes][:1]:
            for example in recipes[name]:
                parts = example[content][:_MOST_PARTS]
                cells = [TableCell(part_label(text), change=number(w, 2)) for text, w in parts]
                more = len(example[content]) - len(parts) + example.get("more", 0)
                cells += [TableCell("")] * (_MOST_PARTS - len(cells))
                # Weights of a recipe sum to one: parts that are not listed have the remainder.
                others = number(1 - sum(weight for _, weight in parts), 2)
                cells.append(TableCell(f"{more} more", change=others) if more else TableCell(""))
                token = {**of_key, "initializer": name, "token": example["text"]}
                names = (*stub(token), part_label(example["text"]))
                rows.append(Row(names, tuple(cells)))
                data += [{**token, "source_token": part, "weight": w} for part, w in parts]
    if not rows:
        return None
    heads = [("source tokens", str(at + 1)) for at in range(_MOST_PARTS)]
    heads.append(("source tokens", "others"))
    notes = [
        "Second number: the weight, or the similarity. ␣: a space. Parts such as E0 B0: bytes in "
        "hexadecimal that are not text on their own."
    ]
    return Table((*headers, "New token"), heads, rows, DataFrame(data), notes)


def part_label(text: str) -> str:
    r"""Text with visible spaces; if it has bytes that are not valid text (`\xe0`), all as hex."""
    if not _BYTE.search(text):
        return text.replace(" ", "␣")
    parts: list[str] = []
    for piece in re.split(r"(\\x[0-9a-f]{2})", text):
        match = _BYTE.fullmatch(piece)
        as_hex = piece.encode().hex(" ").upper().split()
        parts += [match[1].upper()] if match else ["␣"] if piece == " " else as_hex
    return " ".join(parts)
