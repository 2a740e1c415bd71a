"""The recipes of new tokens: the source tokens that they consist of."""

import re

from pandas import DataFrame

from lexigraft.report.frame import SEEDED, StudyResults, select
from lexigraft.report.heldout import text_scores, text_tasks
from lexigraft.report.items import table
from lexigraft.report.models import vocabulary_stub, vocabulary_stub_names
from lexigraft.report.names import initializer_name
from lexigraft.report.rendering import number
from lexigraft.report.table import Row, Table, TableCell

_MOST_PARTS = 5
_BYTE = re.compile(r"\\x([0-9a-f]{2})")


@table(
    title="Recipes of new tokens",
    caption="New tokens and the source tokens that their embedding is a weighted sum of, the "
    "heaviest first, by the initializer with the lowest bits per byte. The tokens are sampled "
    "evenly by frequency and by length.",
    empty="no initializer of this study returns a recipe",
)
def new_tokens(study: StudyResults) -> Table | None:
    """A row per new token of each vocabulary, by the best initializer that has recipes."""
    scores = text_scores(study.summary, text_tasks(study))
    rows, data = [], []
    for key in dict.fromkeys(fit[:3] for fit in study.examples):
        of_key = dict(zip(SEEDED[:3], key, strict=True))
        best_first = select(scores, **of_key).sort_values("mean", kind="stable")["initializer"]
        recipes = {
            name: [example for example in examples if example["parts"]]
            for name in dict.fromkeys([*best_first, *study.initializers])
            for fit, examples in study.examples.items()
            if fit[:4] == (*key, name)
        }
        name = next((name for name, examples in recipes.items() if examples), "")
        for example in recipes.get(name, ()):
            parts = example["parts"][:_MOST_PARTS]
            more = len(example["parts"]) - len(parts) + example["more"]
            # Weights of a recipe sum to one: parts that are not listed have the remainder.
            others = 1 - sum(weight for _, weight in parts) if more else 0.0
            cells = [TableCell(part_label(text), change=number(w, 2)) for text, w in parts]
            cells += [TableCell("")] * (_MOST_PARTS - len(cells))
            cells.append(
                TableCell(f"{more} more", change=number(others, 2)) if more else TableCell("")
            )
            text = part_label(example["text"])
            rows.append(
                Row(vocabulary_stub(study, *key, initializer_name(name), text), tuple(cells))
            )
            data += [
                {**of_key, "initializer": name, "token": example["text"], "part": part, "weight": w}
                for part, w in example["parts"]
            ]
    if not rows:
        return None
    heads = [("recipe", str(at + 1)) for at in range(_MOST_PARTS)] + [("recipe", "others")]
    headers = vocabulary_stub_names(study, "Initializer", "New token")
    notes = ["␣: a space. Parts such as E0 B0: bytes in hexadecimal that are no text on their own."]
    return Table(headers, heads, rows, DataFrame(data), notes)


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
