"""Scores of families of models by task or tested language (VocADT, Tables 2 to 8, 10, 11)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from lexigraft.evaluation.task_kinds import ENGLISH
from lexigraft.report.averages import Averages
from lexigraft.report.items import LISTS, Item, Kind, Names, Options, Refers, ScoreOptions
from lexigraft.report.metrics import primary_metric
from lexigraft.report.models import Column, Model
from lexigraft.report.names import listed
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import CELL, Frame, select
from lexigraft.report.table import Table
from lexigraft.report.tables.results import HOW_SHOWN, results_table


class Models(Options):
    """Some models of a family: those with these names on each axis; by default, with any name."""

    sources: Annotated[Names, Refers("sources")] = ()
    languages: Annotated[Names, Refers("languages")] = ()
    vocabularies: Annotated[Names, Refers("vocabularies")] = ()
    initializers: Annotated[Names, Refers("initializers")] = ()
    strategies: Annotated[Names, Refers("strategies")] = ()


class Family(Options):
    """A row: models that together have one score for each test."""

    title: Annotated[str, Field(min_length=1)]
    models: Annotated[tuple[Models, ...], Field(min_length=1)]


class ComparisonOptions(ScoreOptions):
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
    averages: Averages = ()


KIND = Kind(
    title="Families of models",
    caption="Scores of families of models by task or tested language. A family has one model for "
    "each group of languages, or for each language; a note lists the model of each score. "
    f"{HOW_SHOWN}",
    empty="no model of these families was tested on these tasks",
    options=ComparisonOptions,
)


@dataclass(frozen=True)
class ComparedFamilies:
    """A study whose cells are families, with the rows and columns of its table or figure."""

    study: StudyResults
    rows: dict[Model, str]  # with their titles
    columns: list[Column]
    notes: list[str]


def build(study: StudyResults) -> Table | None:
    """A row per source model and family; a column per tested language, task and metric."""
    found = compared(study)
    if found is None:
        return None
    several = len({model.source for model in found.rows}) > 1
    headers = ("Source model", "Model") if several else ("Model",)
    stubs = [(model.source, title)[-len(headers) :] for model, title in found.rows.items()]
    table = results_table("", found.study, [*found.rows], found.columns, stubs, headers)
    return replace(table, notes=[*table.notes, *found.notes])


def compared(study: StudyResults) -> ComparedFamilies | None:
    """The families of an item as models; None if none has a score.

    Their cells have the tested language (or nothing) as language and the family's title as
    initializer, except for families of models with the source vocabulary.
    """
    import pandas

    item = study.item
    by_task = {str(task): rows for task, rows in study.scores.groupby("task", sort=False)}
    columns = list(_columns(study, item, by_task))
    titles: dict[Model, str] = {}
    frames, predictions, notes = [], [], []
    for source in study.order("source"):
        for family in item.option("families") or ():
            models = [cell for some in family.models for cell in _models(study, some, source)]
            if not models:
                continue
            row = _row(models, source, family.title)
            taken: dict[tuple[str, ...], list[str]] = {}  # language and strategy -> columns
            for column in columns:
                tested, task, name = column
                found = _first(study, models, by_task[task], column) if task in by_task else None
                if found is None:
                    continue
                cell, scores = found
                frames.append(scores.assign(**row.keys(), language=tested, metric=name))
                of = study.language(tested) if tested else task
                taken.setdefault((cell["language"], cell["strategy"]), []).append(of)
                if not tested:
                    own = row.keys() | {"language": ""}
                    predictions += [
                        replace(one, cell=one.cell | own)
                        for one in study.predictions
                        if one.task == task and cell.items() <= one.cell.items()
                    ]
            if taken:
                titles[row] = family.title
                notes += _taken_note(study, row, family.title, taken)
    if not frames:
        return None
    scores = pandas.concat(frames, ignore_index=True)
    measured = {*zip(scores["language"], scores["task"], scores["metric"], strict=True)}
    lost = [task for task in item.tasks if task not in set(scores["task"])]
    notes += [f"Not measured: {', '.join(lost)}."] if lost else []
    # A score of one model may be in several columns, but is one prediction.
    unique = list({(one.path, *one.cell.values()): one for one in predictions}.values())
    part = replace(study, scores=scores, predictions=unique, item=replace(item, where={}),
                   whole=None, not_scored=[], read={})  # fmt: skip
    return ComparedFamilies(
        part, titles, [column for column in columns if column in measured], notes
    )


def _columns(study: StudyResults, item: Item, by_task: dict[str, Frame]) -> Iterator[Column]:
    """Each tested language of tasks with scores per language, and all other tasks."""
    tested = item.option("tested") or ()
    for task in item.tasks or by_task:
        found = by_task.get(task, study.scores[:0])
        known = set(found["metric"])
        kind = next(iter(found["kind"]), "")
        main = primary_metric(str(kind), [str(name) for name in known])
        for name in item.metrics or ((main,) if main else ()):
            apart = [one for one in tested if _apart(study, name, one) & known]
            # For models with a single language, its score has no suffix.
            alone = {*select(found, metric=name)["language"]} if apart else set()
            languages = [one for one in tested if one in apart or one in alone]
            for language in languages or [""]:
                yield language, task, name


def _apart(study: StudyResults, name: str, language: str) -> set[str]:
    """The names of a metric for one of several tested languages in records."""
    english = study.languages.get(language, {}).get("code") == "en"
    return {f"{name}_{language}", *([f"{ENGLISH}_{name}"] if english else [])}


def _models(study: StudyResults, some: Models, source: str) -> list[dict[str, str]]:
    """The cells of some models, without seeds, in the order of the names in `some`."""
    if some.sources and source not in some.sources:
        return []
    cells = select(study.scores, source=source).drop_duplicates(CELL)[CELL]
    orders = {}
    for axis, of in LISTS.items():
        named = list(getattr(some, of))
        every = [str(one) for one in cells[axis].drop_duplicates()]
        orders[axis] = {name: place for place, name in enumerate(named or every)}
        cells = cells[cells[axis].isin(orders[axis])]
    found: list[dict[str, Any]] = cells.to_dict("records")
    return sorted(found, key=lambda cell: [orders[axis][cell[axis]] for axis in CELL])


def _row(models: list[dict[str, str]], source: str, title: str) -> Model:
    """The axes of a family; a family of models with the source vocabulary stays a baseline."""
    if all(cell["initializer"] == "none" for cell in models):
        return Model(source, "source", "none", models[0]["strategy"])
    return Model(source, "", title, "")


def _first(
    study: StudyResults, models: list[dict[str, str]], of_task: Frame, column: Column
) -> tuple[dict[str, str], Frame] | None:
    """The first model with a score, and its scores under any name in its records."""
    tested, _, name = column
    for cell in models:
        own = select(of_task, **cell)
        alone = tested in ("", cell["language"])
        names = {name} if alone else _apart(study, name, tested)
        if len(found := own[own["metric"].isin(names)]):
            return cell, found
    return None


def _taken_note(
    study: StudyResults, row: Model, title: str, taken: dict[tuple[str, ...], list[str]]
) -> list[str]:
    """A note on which model of a family has which scores, if it has several models."""
    if len(taken) < 2:
        return []
    parts = [
        f"{listed(dict.fromkeys(columns))} by {study.language(language)}"
        + (f" ({strategy})" if strategy != "none" else "")
        for (language, strategy), columns in taken.items()
    ]
    return [f"{title}{f' of {row.source}' if study.has_several_sources else ''}: "
            f"{'; '.join(parts)}."]  # fmt: skip
