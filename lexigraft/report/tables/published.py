"""Comparison of papers' numbers with those of the study."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from lexigraft.report.items import Kind, Name, Names, Options, Refers, ScoreOptions
from lexigraft.report.metrics import metric
from lexigraft.report.published import Published
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import CELL, Frame, SummaryRow
from lexigraft.report.table import Row, Table, TableCell, number, number_cell
from lexigraft.report.tables.speed import speed_up_rows

# A score is within the spread if it differs from the paper's by at most this many deviations.
_DEVIATIONS = 2


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
    pairs = _pairs(study, numbers)
    if not pairs:
        return None
    several = len({one.paper for one, _ in pairs}) > 1
    rows, data = [], []
    for one, score in pairs:
        place = f"{one.paper}, Table {one.table}" if several else f"Table {one.table}"
        inside = _within(one, score)
        rows.append(Row((place, one.row, one.column), _cells(one, score, inside), group=place))
        data.append(_line(one, score, inside))
    counts = [line["within"] for line in data]
    missing = len(numbers) - len({id(one) for one, _ in pairs})
    notes = [
        f"Within the spread: {counts.count('yes')} of {len(counts) - counts.count('')} numbers "
        f"that have one; {counts.count('')} have none.",
        f"Within: the difference is at most {_DEVIATIONS} standard deviations (the paper's or this "
        "study's over seeds or runs, whichever is larger) plus half a unit of the paper's last "
        "digit.",
    ]
    if missing:
        notes.append(f"Numbers of the papers that this study does not have: {missing}.")
    heads = [("", "Paper"), ("", "Here"), ("", "Difference"), ("", "Within the spread")]
    return Table(("Table", "Row", "Column"), heads, rows, pandas.DataFrame(data), notes)


def _chosen(study: StudyResults) -> list[Published]:
    """The numbers of the item's papers, tables, tasks and metrics that have a task."""
    item = study.item
    papers = item.option("compare") or (study.name,)
    tables = item.option("tables")
    return [
        one
        for one in study.published
        if one.paper in papers
        and one.task
        and (not tables or one.table in tables)
        and (not item.tasks or one.task in item.tasks)
        and (not item.metrics or one.metric in item.metrics)
    ]


def _pairs(study: StudyResults, numbers: list[Published]) -> "list[tuple[Published, SummaryRow]]":
    """Each published number with the scores of matching cells."""
    import pandas

    stands_for: Mapping[str, StandsFor] = study.item.option("stands_for") or {}
    scores: dict[tuple[str, str], list[tuple[dict[str, str], SummaryRow]]] = {}
    for _, score in pandas.concat([study.summary, _speed_ups(study)]).iterrows():
        cell = {axis: str(score[axis]) for axis in CELL}
        if known := stands_for.get(cell["source"]):
            cell |= known.model_dump(exclude_none=True)
        scores.setdefault((str(score["task"]), str(score["metric"])), []).append((cell, score))
    return [
        (one, score)
        for one in numbers
        for cell, score in scores.get((one.task, one.metric), ())
        if one.cell.items() <= cell.items()
    ]


def _speed_ups(study: StudyResults) -> Frame:
    """The generation speed of cells relative to their source model, as the metric `speed_up`."""
    rows = speed_up_rows(study).sort_values("batch", kind="stable")
    rows = rows.drop_duplicates([*CELL, "task"])
    deviation = rows["std"] / rows["source_mean"]
    return rows.assign(metric="speed_up", mean=rows["speed_up"], std=deviation)


def _within(one: Published, score: "SummaryRow") -> str:
    """Whether a score is within the spread of the paper's number or its own: `yes` or `no`.

    Empty if neither has a spread.
    """
    known = [float(spread) for spread in (one.spread, score["std"])
             if spread is not None and spread == spread]  # fmt: skip
    if not known:
        return ""
    # Half a unit as a float may be slightly less than the exact half.
    reach = (_DEVIATIONS * max(known) + one.rounding) * (1 + 1e-9)
    return "yes" if abs(score["mean"] - one.value) <= reach else "no"


def _cells(one: Published, score: "SummaryRow", inside: str) -> tuple[TableCell, ...]:
    decimals = metric(one.metric).decimals
    paper, here = number_cell(one.value, decimals), number_cell(score["mean"], decimals)
    difference = float(score["mean"] - one.value)
    return (
        replace(paper, deviation=_deviation(one.spread, decimals)),
        replace(here, deviation=_deviation(score["std"], decimals)),
        TableCell(number(difference, decimals, sign=True), value=difference),
        TableCell(inside) if inside else TableCell(),
    )


def _deviation(spread: float | None, decimals: int) -> str:
    return "" if spread is None or spread != spread else number(spread, decimals)


def _line(one: Published, score: "SummaryRow", inside: str) -> dict[str, object]:
    """One row of the data, with numbers in the unit of the metric here."""
    return {
        **{name: getattr(one, name) for name in ("paper", "table", "row", "column")},
        **{axis: score[axis] for axis in CELL},
        "task": one.task,
        "metric": one.metric,
        "published": one.value,
        "published_spread": one.spread,
        "here": score["mean"],
        "difference": score["mean"] - one.value,
        "within": inside,
        **{name: score[name] for name in ("std", "over", "n_seeds", "n_runs")},
    }
