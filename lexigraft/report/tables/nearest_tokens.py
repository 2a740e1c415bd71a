"""The nearest source tokens of a few new tokens (UnifyVocab, Table 8)."""

from typing import Any

from lexigraft.report.items import Kind
from lexigraft.report.models import vocabulary_stub, vocabulary_stub_names
from lexigraft.report.names import initializer_name
from lexigraft.report.study import StudyResults
from lexigraft.report.table import Row, Table, TableCell, number

KIND = Kind(
    title="Nearest source tokens",
    caption="The source tokens nearest to a few new tokens, the nearest first, with their "
    "similarity. The new token copies the rows of the first. The new tokens are sampled evenly by "
    "frequency and by length.",
    empty="no initializer of this study looks for nearest source tokens",
)
_PLACES = ("nearest", "second", "third")


def build(study: StudyResults) -> Table | None:
    """A row per vocabulary, initializer and new token."""
    import pandas

    rows, data = [], []
    for (source, language, vocabulary, initializer, seed), examples in study.examples.items():
        for example in examples:
            near: list[list[Any]] = example.get("nearest", [])
            if not near:
                continue
            name = initializer_name(initializer)
            left = vocabulary_stub(study, source, language, vocabulary, name, example["text"])
            cells = [TableCell(text, change=number(score, 2)) for text, score in near]
            cells += [TableCell()] * (len(_PLACES) - len(cells))
            rows.append(Row(left, tuple(cells)))
            data += [
                {
                    "source": source,
                    "language": language,
                    "vocabulary": vocabulary,
                    "initializer": initializer,
                    "seed": seed,
                    "token": example["token"],
                    "text": example["text"],
                    "rank": rank,
                    "source_token": text,
                    "score": score,
                }
                for rank, (text, score) in enumerate(near, 1)
            ]
    if not rows:
        return None
    heads = tuple(("source tokens", place) for place in _PLACES)
    headers = vocabulary_stub_names(study, "Initializer", "New token")
    notes = ["Second number: the cosine of their vectors, or the similarity that the method uses."]
    return Table(headers, heads, rows, pandas.DataFrame(data), notes)
