"""Scores of families of models by task or tested language (VocADT, Tables 2 to 8, 10, 11)."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Annotated, Any, NamedTuple

import pandas
from pandas import DataFrame
from pydantic import Field

from lexigraft.evaluation.task_kinds import ENGLISH
from lexigraft.report.frame import CELL, Column, Model, StudyResults, select
from lexigraft.report.items import LISTS, CellNames, Names, Options, Refers, table
from lexigraft.report.model_table import HOW_SHOWN, results_table
from lexigraft.report.models import TableOptions
from lexigraft.report.names import listed, primary_metric
from lexigraft.report.table import Table


class Family(Options):
    """A row: models that together have one score for each test."""

    title: Annotated[str, Field(min_length=1)]
    models: Annotated[tuple[CellNames, ...], Field(min_length=1)]


class ComparisonOptions(TableOptions):
    """The options of a comparison of families of models."""

    families: Annotated[
        tuple[Family, ...],
        Field(
            description="the rows, for each source model: a `title` and `models`, a list of "
            "`sources`, `languages`, `vocabularies`, `initializers` and `strategies`, each by "
            "default all. The score is that of the first model, in this order, that was tested"
        ),
    ] = ()
    tested: Annotated[
        Names,
        Refers("languages"),
        Field(
            description="languages with separate columns, for tasks that test each language of a "
            "group separately"
        ),
    ] = ()


TITLE = "Families of models"
NOTHING = "no model of these families was tested on these tasks"


class ComparedFamilies(NamedTuple):
    """A study whose cells are families, with the rows and columns of its table or figure."""

    study: StudyResults
    rows: dict[Model, str]  # with their titles
    sizes: dict[Model, int]  # numbers of models whose scores a row has
    columns: list[Column]
    notes: list[str]


@table(
    title=TITLE,
    caption="Scores of families of models by task or tested language. A family has one model for "
    "each group of languages, or for each language; a note lists the model of each score. "
    f"{HOW_SHOWN}",
    empty=NOTHING,
    options=ComparisonOptions,
)
def comparison(study: StudyResults) -> Table | None:
    """A row per source model and family; a column per tested language, task and metric."""
    families = compared_families(study)
    if families is None:
        return None
    names = {
        "Source model": [model.source for model in families.rows],
        "Model": [*families.rows.values()],
        "Models": [str(families.sizes[model]) for model in families.rows],
    }
    if len({*names["Source model"]}) == 1:
        del names["Source model"]
    if {*names["Models"]} == {"1"}:
        del names["Models"]
    stubs = [*zip(*names.values(), strict=True)]
    rows, headers = [*families.rows], tuple(names)
    scores = results_table("", families.study, rows, families.columns, stubs, headers)
    return replace(scores, notes=[*scores.notes, *families.notes])


def compared_families(study: StudyResults) -> ComparedFamilies | None:
    """The families of an item as models; None if none has a score.

    Their cells have the tested language (or nothing) as language and the family's title as
    initializer, except for families of models with the source vocabulary.
    """
    by_task = {str(task): rows for task, rows in study.scores.groupby("task", sort=False)}
    columns = list(_columns(study, by_task))
    titles: dict[Model, str] = {}
    sizes: dict[Model, int] = {}
    predictions: dict[tuple[Any, Model], Any] = {}
    frames, notes = [], []
    for source, family in product(study.order("source"), study.item.option("families") or ()):
        cells = [cell for models in family.models for cell in _cells(study, models, source)]
        if not cells:
            continue
        row = Model(source, "", family.title, "")
        if all(cell["initializer"] == "none" for cell in cells):
            row = Model(source, "source", "none", cells[0]["strategy"])
        scored: dict[tuple[str, ...], list[str]] = {}  # cell -> columns
        for tested, task, name in columns:
            # The first model with a score under any name in its records.
            for cell in cells if task in by_task else ():
                single = tested in ("", cell["language"])
                names = {name} if single else _names_of_test(study, name, tested)
                scores = select(by_task[task], **cell)
                scores = scores[scores["metric"].isin(names)]
                if scores.empty:
                    continue
                frames.append(scores.assign(**row.axes(), language=tested, metric=name))
                column = study.language(tested) if tested else task
                scored.setdefault(tuple(cell.values()), []).append(column)
                # A score of one model may be in several columns, but is one prediction.
                predictions |= {
                    (run.path, row): run._replace(cell=run.cell | row.axes() | {"language": ""})
                    for run in ([] if tested else study.predictions)
                    if run.task == task and cell.items() <= run.cell.items()
                }
                break
        if scored:
            titles[row], sizes[row] = family.title, len(scored)
        if len(scored) > 1:
            title = family.title + (f" of {source}" if study.has_several_sources else "")
            parts = []
            for (_, language, *_, strategy), names_of_columns in scored.items():
                model = study.language(language) + f" ({strategy})" * (strategy != "none")
                parts.append(f"{listed(dict.fromkeys(names_of_columns))} by {model}")
            notes.append(f"{title}: {'; '.join(parts)}.")
    if not frames:
        return None
    scores = pandas.concat(frames, ignore_index=True)
    measured = {*zip(scores["language"], scores["task"], scores["metric"], strict=True)}
    missing = [task for task in study.item.tasks if task not in set(scores["task"])]
    notes += [f"Not measured: {', '.join(missing)}."] if missing else []
    part = replace(
        study,
        scores=scores,
        predictions=list(predictions.values()),
        item=replace(study.item, where={}),
        whole=None,
        not_scored=[],
        cache={},
    )
    return ComparedFamilies(part, titles, sizes, [key for key in columns if key in measured], notes)


def _columns(study: StudyResults, by_task: dict[str, DataFrame]) -> Iterator[Column]:
    """Each tested language of tasks with scores per language, and all other tasks."""
    item = study.item
    tested = item.option("tested") or ()
    for task in item.tasks or by_task:
        scores = by_task.get(task, study.scores[:0])
        known = set(scores["metric"])
        primary = primary_metric(str(next(iter(scores["kind"]), "")), [*map(str, known)])
        for name in item.metrics or ((primary,) if primary else ()):
            separate = [
                language for language in tested if _names_of_test(study, name, language) & known
            ]
            # For models with a single language, its score has no suffix.
            single = {*select(scores, metric=name)["language"]} if separate else set()
            languages = [name for name in tested if name in separate or name in single]
            for language in languages or [""]:
                yield language, task, name


def _names_of_test(study: StudyResults, name: str, language: str) -> set[str]:
    """The names of a metric for one of several tested languages in records."""
    english = study.languages.get(language, {}).get("code") == "en"
    return {f"{name}_{language}", *([f"{ENGLISH}_{name}"] if english else [])}


def _cells(study: StudyResults, models: CellNames, source: str) -> list[dict[str, str]]:
    """The cells of some models, without seeds, in the order of the names in `models`."""
    if models.sources and source not in models.sources:
        return []
    cells = select(study.scores, source=source).drop_duplicates(CELL)[CELL]
    orders = {}
    for axis, plural in LISTS.items():
        names = getattr(models, plural) or cells[axis].drop_duplicates()
        orders[axis] = {name: at for at, name in enumerate(names)}
        cells = cells[cells[axis].isin(orders[axis])]
    rows: list[dict[str, Any]] = cells.to_dict("records")
    return sorted(rows, key=lambda cell: [orders[axis][cell[axis]] for axis in CELL])
