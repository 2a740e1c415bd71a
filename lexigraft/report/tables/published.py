"""Comparison of papers' numbers with those of the study."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from lexigraft.cells import is_aliased
from lexigraft.report.items import Kind, Name, Names, Options, Refers, ScoreOptions
from lexigraft.report.metrics import metric
from lexigraft.report.published import Published
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import CELL, SummaryRow
from lexigraft.report.table import Row, Table, TableCell, number, number_cell

# A score is within the spread if it differs from the paper's by at most this many deviations.
_DEVIATIONS = 2
# The end of the name of an initializer, vocabulary or strategy that computes what the authors' code
# does; their numbers are printed under the name without it.
_AS_PUBLISHED = "-as-published"


class StandsFor(Options):
    """The names of a model's numbers in papers; axes that are not given are unchanged."""

    source: Name | None = None
    language: Name | None = None
    vocabulary: Name | None = None
    initializer: Name | None = None
    strategy: Name | None = None


class PublishedOptions(ScoreOptions):
    """The options of a comparison with papers."""

    compare: Annotated[
        tuple[Name, ...],
        Field(
            description="papers to compare with, by files of config/published; default: the one "
            "with the name of the study"
        ),
    ] = ()
    tables: Annotated[
        Names, Field(description="only these tables of the paper, by their numbers as text")
    ] = ()
    stands_for: Annotated[dict[Name, StandsFor], Refers("sources")] = Field(
        default_factory=dict,
        description="source model -> the names of the cell that it represents in the paper, such "
        "as `{source: mistral-7b, strategy: vocadt}` for a model that the authors published",
    )


KIND = Kind(
    title="Comparison with the paper",
    caption="Published numbers compared with those of this study, where both exist: mean ± sample "
    "standard deviation, the difference, and whether it lies within the spread.",
    empty="no paper reports a number for a cell, task and metric of this study",
    options=PublishedOptions,
    reads=("published",),
)


def build(study: StudyResults) -> Table | None:
    """A row per published number and cell with the corresponding score."""
    import pandas

    numbers = _chosen(study)
    scores = _scores(study)
    rows, data = [], []
    unmatched: Counter[str] = Counter()
    several = len({published.paper for published in numbers}) > 1
    for published in numbers:
        matching = [
            (label, score)
            for names, label, score in scores.get((published.task, published.metric), ())
            if published.cell.items() <= names.items()
        ]
        if not matching:
            unmatched[published.reason or "not evaluated in this study"] += 1
        compared: list[object] = []
        for label, score in matching:
            if score.name in compared:
                continue
            compared.append(score.name)
            paper = f"{published.paper}, " if several else ""
            place = f"{paper}Table {published.table}"
            inside = _within(published, score)
            stub = (place, published.row + label, published.column)
            rows.append(Row(stub, _cells(published, score, inside), group=place))
            data.append(_line(published, score, inside))
    if not rows:
        return None
    counts = [line["within"] for line in data]
    notes = [
        f"Within the spread: {counts.count('yes')} of {len(counts) - counts.count('')} numbers "
        f"that have one; {counts.count('')} have none.",
        f"Within: the difference is at most {_DEVIATIONS} standard deviations (the paper's or this "
        "study's over seeds or runs, whichever is larger) plus half a unit of the paper's last "
        "digit.",
    ]
    if unmatched:
        reasons = "; ".join(f"{reason}: {count}" for reason, count in unmatched.most_common())
        notes.append(
            f"Not compared: {unmatched.total()} of {len(numbers)} numbers of the paper ({reasons})."
        )
    heads = [("", "Paper"), ("", "Here"), ("", "Difference"), ("", "Within the spread")]
    return Table(("Table", "Row", "Column"), heads, rows, pandas.DataFrame(data), notes)


def _chosen(study: StudyResults) -> list[Published]:
    """The numbers of the item's papers, tables, tasks and metrics."""
    item = study.item
    papers = item.option("compare") or (study.name,)
    tables = item.option("tables")
    return [
        published
        for published in study.published
        if published.paper in papers
        and (not tables or published.table in tables)
        and (not item.tasks or published.task in item.tasks)
        and (not item.metrics or published.metric in item.metrics)
    ]


def names_in_papers(
    cell: Mapping[str, str], aliases: Iterable[Mapping[str, Any]]
) -> list[tuple[dict[str, str], str]]:
    """The names under which papers print the numbers of a cell, each with a label for its row.

    These are its own names, those of its aliases, and both without the ending `-as-published`.
    """
    same = [
        {**cell, "initializer": alias["initializer"]}
        for alias in aliases
        if is_aliased(cell, alias["same_as"], alias)
    ]
    labelled = [(names, "") for names in ({**cell}, *same)]
    for names, _ in list(labelled):
        printed = {axis: name.removesuffix(_AS_PUBLISHED) for axis, name in names.items()}
        if printed != names:
            labelled.append((printed, ", as published"))
    return labelled


def _scores(
    study: StudyResults,
) -> "dict[tuple[str, str], list[tuple[dict[str, str], str, SummaryRow]]]":
    """Task and metric -> each score, with the names of its cell and the labels of its rows."""
    stands_for: Mapping[str, StandsFor] = study.item.option("stands_for") or {}
    # An item that selects initializers contains the rows of their aliases already.
    aliases = () if "initializer" in study.item.where else (study.whole or study).aliases
    scores: dict[tuple[str, str], list[tuple[dict[str, str], str, SummaryRow]]] = {}
    for _, score in study.summary.iterrows():
        cell = {axis: str(score[axis]) for axis in CELL}
        if known := stands_for.get(cell["source"]):
            cell |= known.model_dump(exclude_none=True)
        entries = scores.setdefault((str(score["task"]), str(score["metric"])), [])
        entries += [(names, label, score) for names, label in names_in_papers(cell, aliases)]
    return scores


def _within(published: Published, score: "SummaryRow") -> str:
    """Whether a score is within the spread of the paper's number or its own: `yes` or `no`.

    Empty if neither has a spread.
    """
    known = [float(spread) for spread in (published.spread, score["std"])
             if spread is not None and spread == spread]  # fmt: skip
    if not known:
        return ""
    # Half a unit as a float may be slightly less than the exact half.
    reach = (_DEVIATIONS * max(known) + published.rounding) * (1 + 1e-9)
    return "yes" if abs(score["mean"] - published.value) <= reach else "no"


def _cells(published: Published, score: "SummaryRow", inside: str) -> tuple[TableCell, ...]:
    decimals = metric(published.metric).decimals
    paper, here = number_cell(published.value, decimals), number_cell(score["mean"], decimals)
    difference = float(score["mean"] - published.value)
    return (
        replace(paper, deviation=_deviation(published.spread, decimals)),
        replace(here, deviation=_deviation(score["std"], decimals)),
        TableCell(number(difference, decimals, sign=True), value=difference),
        TableCell(inside) if inside else TableCell(),
    )


def _deviation(spread: float | None, decimals: int) -> str:
    return "" if spread is None or spread != spread else number(spread, decimals)


def _line(published: Published, score: "SummaryRow", inside: str) -> dict[str, object]:
    """One row of the data, with numbers in the unit of the metric here."""
    return {
        **{name: getattr(published, name) for name in ("paper", "table", "row", "column")},
        **{axis: score[axis] for axis in CELL},
        "task": published.task,
        "metric": published.metric,
        "published": published.value,
        "published_spread": published.spread,
        "here": score["mean"],
        "difference": score["mean"] - published.value,
        "within": inside,
        **{name: score[name] for name in ("std", "over", "n_seeds", "n_runs")},
    }
