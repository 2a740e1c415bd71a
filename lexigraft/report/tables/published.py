"""Comparison of papers' numbers with those of the study."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pandas
from pandas import DataFrame
from pydantic import Field

from lexigraft.cells import is_aliased
from lexigraft.report.frame import CELL, StudyResults
from lexigraft.report.items import CARD_TASKS, Name, Names, Options, Refers, ScoreOptions, table
from lexigraft.report.names import metric
from lexigraft.report.published import Published, Score
from lexigraft.report.table import MISSING, Row, Table, TableCell, number_cell

# A score is within the spread if it differs from the paper's by at most this many deviations.
_DEVIATIONS = 2
# The end of the name of an initializer, vocabulary or strategy that computes what the authors' code
# does; their numbers are printed under the name without it.
_AS_PUBLISHED = "-as-published"
_PLACE = ("paper", "table", "row", "column")  # what identifies a number


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
    replaced: dict[Name, Name | list[Name]] = Field(
        default_factory=dict,
        description="names in the papers' numbers -> what stands for them in this study, such as "
        "the `replace` of a study that has a `base`",
    )

    beside: Annotated[
        Name | None,
        Field(
            description="another study, whose numbers in its item of the same name stand beside "
            "those of this one, such as the paper's `-as-published`"
        ),
    ] = None


@table(
    title="Comparison with the paper",
    caption="Published numbers compared with those of this study, where both exist: mean ± sample "
    "standard deviation, the difference, and whether it lies within the spread.",
    empty="no paper reports a number for a cell, task and metric of this study",
    options=PublishedOptions,
    reads=("published",),
)
def published(study: StudyResults) -> Table | None:
    """A row per published number and cell with the corresponding score."""
    item = study.item
    papers, tables = item.option("compare") or (study.name,), item.option("tables")
    numbers = [
        printed
        for printed in study.published
        if printed.paper in papers
        and (not tables or printed.table in tables)
        and (not item.metrics or {score.metric for score in printed.scores} & {*item.metrics})
    ]
    replaced: Mapping[str, Name | list[Name]] = item.option("replaced") or {}

    def names_here(name: str) -> list[Name]:
        names = replaced.get(name, name)
        return [names] if isinstance(names, str) else names

    scores = _scores(study)

    def matching(printed: Score) -> list[tuple[str, dict[str, Any]]]:
        """The scores here with the names of a printed one, each with a label for its row."""
        cell = {axis: names_here(name) for axis, name in printed.cell.items()}
        matches = [
            (labels[0], score)
            for task in names_here(printed.task)
            if not item.tasks or task in item.tasks
            for score, labelled in scores.get((task, printed.metric), ())
            if (
                labels := [
                    label
                    for names, label in labelled
                    if all(names[axis] in cell[axis] for axis in cell)
                ]
            )
        ]
        # All cells with a vocabulary have its numbers.
        return matches[:1] if printed.task in CARD_TASKS else matches

    beside = item.option("beside")
    others = _numbers_of(study.reports, beside, item.name) if beside else {}
    rows, data = [], []
    unmatched: Counter[str] = Counter()
    several = len({printed.paper for printed in numbers}) > 1
    for printed in numbers:
        parts = [matching(score) for score in printed.scores]
        # The first scores that match the parts of a mean belong to one mean, the second to another.
        complete = len({len(part) for part in parts}) == 1
        if not complete or not parts[0]:
            unmatched[printed.reason or "not evaluated in this study"] += 1
            continue
        decimals = metric(printed.scores[0].metric).decimals
        for matches in zip(*parts, strict=True):
            label, score = matches[0][0], _mean([score for _, score in matches])
            difference, within = float(score["mean"] - printed.value), _within(printed, score)
            place = {name: getattr(printed, name) for name in _PLACE}
            other = others.get(tuple(place.values()), {})
            shown = [
                (printed.value, printed.spread),
                *([(other.get("here"), other.get("std"))] if beside else []),
                (score["mean"], score["std"]),
            ]
            cells = [
                replace(number_cell(value, decimals),
                        deviation=number_cell(spread, decimals).text.strip(MISSING))
                for value, spread in shown
            ]  # fmt: skip
            cells.append(number_cell(difference, decimals, sign=True))
            cells.append(TableCell(within) if within else TableCell())
            location = f"{f'{printed.paper}, ' if several else ''}Table {printed.table}"
            left = (location, printed.row + label, printed.column)
            rows.append(Row(left, tuple(cells), group=location))
            data.append({
                **place,
                **{axis: score.get(axis) for axis in (*CELL, "task", "metric")},
                "published": printed.value,
                "published_spread": printed.spread,
                "here": score["mean"],
                "difference": difference,
                "within": within,
                **{name: score.get(name) for name in ("std", "over", "n_seeds", "n_runs")},
                **({f"here_{beside}": other.get("here")} if beside else {}),
            })  # fmt: skip
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
    here = [beside, study.name] if beside else ["Here"]
    if beside and not others:
        notes.append(f"{beside}: its report does not exist yet; build it, then this one again.")
    heads = [("", head) for head in ("Paper", *here, "Difference", "Within the spread")]
    return Table(("Table", "Row", "Column"), heads, rows, DataFrame(data), notes)


def _scores(study: StudyResults) -> dict[tuple[str, str], list[tuple[dict[str, Any], list]]]:
    """Task and metric -> each score, with the names of its cell in papers and their labels."""
    stands_for: Mapping[str, StandsFor] = study.item.option("stands_for") or {}
    # An item that selects initializers contains the rows of their aliases already.
    aliases = () if "initializer" in study.item.where else (study.whole or study).aliases
    scores: dict[tuple[str, str], list[tuple[dict[str, Any], list]]] = {}
    for score in study.with_card_scores().summary.to_dict("records"):
        cell = {axis: score[axis] for axis in CELL}
        if represented := stands_for.get(cell["source"]):
            cell |= represented.model_dump(exclude_none=True)
        of_metric = scores.setdefault((score["task"], score["metric"]), [])
        of_metric.append((score, names_in_papers(cell, aliases)))
    return scores


def _numbers_of(reports: Path | None, study: str, name: str) -> dict[tuple, dict[str, Any]]:
    """The place of each number in the paper -> the row of a table of another study's report.

    Empty if the report has not been built.
    """
    file = (reports or Path()) / study / "tables" / f"{name}.csv"
    if not file.is_file():
        return {}
    rows = pandas.read_csv(file, dtype=dict.fromkeys(_PLACE, str)).to_dict("records")
    return {tuple(row[name] for name in _PLACE): row for row in reversed(rows)}


def _mean(scores: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean of scores, which has the names that they share; one score is its own mean."""
    if len(scores) == 1:
        return scores[0]
    shared = {
        axis: name
        for axis, name in scores[0].items()
        if all(score.get(axis) == name for score in scores)
    }
    mean = sum(score["mean"] for score in scores) / len(scores)
    return {"over": "", "n_seeds": None, "n_runs": None} | shared | {"mean": mean, "std": None}


def names_in_papers(
    cell: Mapping[str, str], aliases: Iterable[Mapping[str, Any]]
) -> list[tuple[dict[str, str], str]]:
    """The names under which papers print the numbers of a cell, each with a label for its row.

    These are its own names, those of its aliases, and both without the ending `-as-published`, or
    with it: a number of the authors' code is also compared with the method that the paper
    describes.
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
        of_code = names["initializer"].removesuffix(_AS_PUBLISHED) + _AS_PUBLISHED
        if of_code != names["initializer"]:
            labelled.append((names | {"initializer": of_code}, ", as described"))
    return labelled


def _within(printed: Published, score: dict[str, Any]) -> str:
    """Whether a score is within the spread of the paper's number or its own: `yes` or `no`.

    Empty if neither has a spread.
    """
    spreads = [
        float(spread)
        for spread in (printed.spread, score["std"])
        if spread is not None and spread == spread
    ]
    if not spreads:
        return ""
    # Half a unit as a float may be slightly less than the exact half.
    reach = (_DEVIATIONS * max(spreads) + printed.rounding) * (1 + 1e-9)
    return "yes" if abs(score["mean"] - printed.value) <= reach else "no"
