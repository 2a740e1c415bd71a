"""The nearest source tokens of a few new tokens (UnifyVocab, Table 8)."""

from pandas import DataFrame

from lexigraft.report.frame import SEEDED, StudyResults
from lexigraft.report.items import table
from lexigraft.report.models import vocabulary_stub, vocabulary_stub_names
from lexigraft.report.names import initializer_name
from lexigraft.report.rendering import number
from lexigraft.report.table import Row, Table, TableCell

_RANKS = ("nearest", "second", "third")


@table(
    title="Nearest source tokens",
    caption="The source tokens nearest to a few new tokens, the nearest first, with their "
    "similarity. The new token copies the rows of the first. The new tokens are sampled evenly by "
    "frequency and by length.",
    empty="no initializer of this study looks for nearest source tokens",
)
def nearest_tokens(study: StudyResults) -> Table | None:
    """A row per vocabulary, initializer and new token."""
    rows, data = [], []
    for fit, examples in study.examples.items():
        names = dict(zip((*SEEDED[:4], "seed"), fit, strict=True))
        for example in examples:
            nearest = example.get("nearest", [])
            if not nearest:
                continue
            name = initializer_name(names["initializer"])
            cells = [TableCell(text, change=number(score, 2)) for text, score in nearest]
            cells += [TableCell()] * (len(_RANKS) - len(cells))
            rows.append(Row(vocabulary_stub(study, *fit[:3], name, example["text"]), tuple(cells)))
            token = {"token": example["token"], "text": example["text"]}
            data += [
                {**names, **token, "rank": rank, "source_token": text, "score": score}
                for rank, (text, score) in enumerate(nearest, 1)
            ]
    if not rows:
        return None
    heads = [("source tokens", rank) for rank in _RANKS]
    headers = vocabulary_stub_names(study, "Initializer", "New token")
    notes = ["Second number: the cosine of their vectors, or the similarity that the method uses."]
    return Table(headers, heads, rows, DataFrame(data), notes)
