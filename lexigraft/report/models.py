"""The models in the rows of a table or the lines of a figure, and columns that are means."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Annotated, Any, Literal

import pandas
from pandas import DataFrame
from pydantic import Field

from lexigraft.report.frame import AXES, COLUMN, Column, Model, StudyResults, models_of
from lexigraft.report.items import (
    CARD_TASKS,
    MetricNames,
    Names,
    Options,
    Refers,
    ScoreOptions,
    TaskNames,
)
from lexigraft.report.names import (
    AVERAGE,
    SAME_TEXT,
    initializer_name,
    listed,
    primary_metric,
    row_name,
    strategy_name,
)


def models(study: StudyResults) -> list[Model]:
    """Source, LAPT and each initializer under the reference strategy, for each source model.

    If an item names several strategies, LAPT and initializers are rows under each of them. If LAPT
    has none of these, it is the study's first one trained on text only, as the name implies
    (training on samples of tasks is something else), but not together with untrained models.
    Initializers that an item names for a vocabulary that it names are rows even without a record.
    """
    cells = models_of(study.scores.drop_duplicates(AXES))
    where = study.item.where
    strategies = study.compared_strategies or (study.reference_strategy or "none",)
    all_named = {"vocabulary", "initializer"} <= set(where) and len(strategies) == 1
    rows = []
    for source in study.order("source"):
        baselines = [cell for cell in cells if cell.source == source and cell.baseline]
        rows += [cell for cell in baselines if cell.is_source]
        lapt = [cell for cell in baselines if not cell.is_source]
        of_text = [cell for cell in lapt if study.is_of_text_alone(cell.strategy)]
        substitute = [] if "none" in where.get("strategy", ()) else of_text[:1]
        rows += [cell for cell in lapt if cell.strategy in strategies] or substitute
        for names in product(study.new_vocabularies, study.initializers, strategies):
            model = Model(source, *names)
            if all_named or model in cells:
                rows.append(model)
    return rows


def stub_names(study: StudyResults) -> tuple[str, ...]:
    """Headings left of the numbers: source, vocabulary and strategy only if there are several."""
    values = {
        "Source model": study.order("source"),
        "Vocabulary": study.new_vocabularies,
        "Strategy": study.compared_strategies,
    }
    return (*(name for name, several in values.items() if len(several) > 1), "Model")


def stub(model: Model, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of a row under these headings."""
    values = {
        "Source model": model.source,
        "Vocabulary": model.vocabulary,
        "Strategy": strategy_name(model.strategy),
        "Model": row_name(model.initializer, model.strategy),
    }
    return tuple(values[name] for name in names)


def vocabulary_stub(
    study: StudyResults, initializers: bool = False
) -> tuple[tuple[str, ...], Callable[[Mapping[str, str]], tuple[str, ...]]]:
    """Headings of a table of vocabularies, or fits, and the names of a row from its axes.

    The source is only named if there are several.
    """
    headings = {
        "Source model": lambda row: row["source"],
        "Language": lambda row: study.language(row["language"]),
        "Vocabulary": lambda row: row["vocabulary"],
        "Initializer": lambda row: initializer_name(row["initializer"]),
    }
    if not study.has_several_sources:
        del headings["Source model"]
    if not initializers:
        del headings["Initializer"]
    return tuple(headings), lambda row: tuple(name(row) for name in headings.values())


def quality_columns(study: StudyResults) -> list[Column]:
    """`(language, task, metric)` of every task that measures quality, languages first.

    What an item names is a column even without a record, if the study runs it on the language or
    if it could not be scored.
    """
    item, summary = study.item, study.summary
    unscored = {
        (run.cell["language"], run.task): run.score
        for run in study.not_scored
        if run.metric == run.task
    }
    measured: dict[tuple[str, str], list[str]] = {}
    for language, task, name in summary[COLUMN].drop_duplicates().itertuples(index=False):
        measured.setdefault((language, task), []).append(name)
    of_tasks: dict[str, list[str]] = {}  # the metrics of a task in any language
    for (_, task), names in measured.items():
        of_tasks[task] = list(dict.fromkeys([*of_tasks.get(task, ()), *names]))
    columns = []
    for language in study.order("language"):
        tasks = dict.fromkeys(task for key, task in measured if key == language)
        tasks = tasks or dict.fromkeys(of_tasks)
        tasks |= dict.fromkeys(task for key, task in unscored if key == language)
        for task in item.tasks or tasks:
            planned = not study.planned or task in CARD_TASKS or (language, task) in study.planned
            if item.tasks and not planned:
                continue
            names = of_tasks.get(task, []) if item.tasks else measured.get((language, task), [])
            score = unscored.get((language, task))
            if item.metrics:
                # Metrics that no record of the study has are columns of every task.
                anywhere = {name for known in of_tasks.values() for name in known}
                shown = {*names, score} | ({*item.metrics} - anywhere if item.tasks else set())
                columns += [(language, task, name) for name in item.metrics if name in shown]
            elif name := primary_metric(study.task_kind(task), names) or score:
                columns.append((language, task, name))
    return columns


Over = Literal["tasks", "languages"]


class Average(Options):
    """One average: the title of its columns, and the scores that it averages."""

    title: Annotated[str, Refers("tasks", unlike=True), Field(min_length=1)] = "Average"
    over: Annotated[tuple[Over, ...], Field(min_length=1)] = ("tasks", "languages")
    tasks: TaskNames = ()
    languages: Annotated[Names, Refers("languages")] = ()
    metrics: MetricNames = ()

    def column(self, language: str, task: str, name: str) -> Column | None:
        """The column of means that includes a column; averaged axes have the title, or no name."""
        filters = ((self.languages, language), (self.tasks, task), (self.metrics, name))
        if not all(not names or value in names for names, value in filters):
            return None
        over_tasks = "tasks" in self.over
        place = "" if over_tasks else self.title
        over = place if "languages" in self.over else language
        return over, self.title if over_tasks else task, name


Averages = Annotated[
    tuple[Average, ...],
    Field(
        description="columns of means, each with a `title`, what it averages `over` (`tasks`, "
        "`languages`, by default both), and the `tasks`, `languages` and `metrics` of the table "
        "that it includes, by default all. A row has a mean if it has all scores of the mean"
    ),
]


class TableOptions(ScoreOptions):
    """The options of a table of scores."""

    averages: Averages = ()
    change: Annotated[
        Literal["difference", "percent", "share", "times"],
        Field(
            description="second number of a cell: the `difference` from the source model's score, "
            "that in `percent`, the `share` of the score, or how many `times` as good it is"
        ),
    ] = "difference"
    relative_to: Annotated[
        str,
        Field(
            description="initializer, or title of a family, whose scores changes refer to; default:"
            " the source model"
        ),
    ] = ""


def average_columns(
    averages: Sequence[Average], columns: Sequence[Column]
) -> dict[Column, list[Column]]:
    """Each column of means -> the columns that it averages: two or more, or a language by name."""
    means: dict[Column, list[Column]] = {}
    for average in averages:
        parts: dict[Column, list[Column]] = {}
        for column in columns:
            if mean := average.column(*column):
                parts.setdefault(mean, []).append(column)
        means |= {
            mean: averaged
            for mean, averaged in parts.items()
            if len(averaged) > 1 or len(average.languages) == 1
        }
    return means


def with_averages(study: StudyResults, means: Mapping[Column, Sequence[Column]]) -> StudyResults:
    """The study with the means as scores.

    The language of a mean over languages is the average's title; that of a mean over both is empty.
    """
    kinds = {task: study.task_kind(task) or AVERAGE for _, task, _ in means}
    scores = pandas.concat([study.scores, mean_rows(study.scores, means, kinds)], ignore_index=True)
    titles = {
        language: {"name": language} for language, *_ in means if language not in study.languages
    }
    return replace(study, scores=scores, languages=study.languages | titles)


def mean_rows(
    scores: DataFrame, means: Mapping[Column, Sequence[Column]], kinds: Mapping[str, str]
) -> DataFrame:
    """A row for each mean of a model and seed (and checkpoint) that has all its parts.

    Runs of a seed are averaged first. `kinds` are the kinds of the tasks of means.
    """
    axes = [name for name in scores if name not in (*COLUMN, "kind", "run", "value")]
    by_seed = scores.groupby([*axes, *COLUMN], sort=False)["value"].mean().reset_index()
    columns = pandas.MultiIndex.from_frame(by_seed[COLUMN])
    frames = [scores.iloc[:0]]
    for (language, task, name), parts in means.items():
        groups = by_seed[columns.isin(parts)].groupby(axes, sort=False)["value"]
        mean = groups.mean()[groups.size() == len(parts)].reset_index()
        names = {"language": language, "task": task, "kind": kinds[task], "metric": name}
        frames.append(mean.assign(**names, run=0)[list(scores)])
    return pandas.concat(frames, ignore_index=True)


def in_order(columns: Sequence[Column], means: Mapping[Column, Sequence[Column]]) -> list[Column]:
    """All columns: a mean over tasks follows its language's columns, other means come last."""
    languages = [language for language, *_ in columns]
    ordered = []
    for place, column in enumerate(columns):
        ordered.append(column)
        if column[0] not in languages[place + 1 :]:
            ordered += [mean for mean in means if mean[0] == column[0]]
    return ordered + [mean for mean in means if mean[0] not in languages]


def average_notes(study: StudyResults, means: Mapping[Column, Sequence[Column]]) -> list[str]:
    """Notes on what each column of means averages."""
    notes: dict[str, None] = {}
    for (language, task, _), parts in means.items():
        tasks, languages = (list(dict.fromkeys(part[at] for part in parts)) for at in (1, 0))
        over = [listed(tasks)] if tasks != [task] else []
        over += [listed(map(study.language, languages))] if languages != [language] else []
        title = task if tasks != [task] else language
        notes[f"{title}: the mean over {', and over '.join(over)}; not tested."] = None
    return list(notes)


def rows_of(summary: pandas.DataFrame, rows: Sequence[Model], columns: Sequence[Column]):
    """The rows of a summary for these models and columns."""
    keys = summary[COLUMN].itertuples(index=False, name=None)
    shown, chosen = set(columns), set(rows)
    pairs = zip(models_of(summary), keys, strict=True)
    return summary[[model in chosen and key in shown for model, key in pairs]]


Unit = Annotated[
    Literal["same_text_characters", "answer_tokens", "answer_characters", "tokens"],
    Field(
        description="what the speed-up counts: characters of the same text; or, as papers do, "
        "tokens or characters of the model's answers, whose texts differ"
    ),
]


def speed_ups(study: StudyResults) -> DataFrame:
    """Rows of the summary that are speed-ups in the item's unit, of the smallest batch of a task.

    `prompts` is the kind of the task whose prompts were continued.
    """
    unit, rows = study.item.option("speed") or SAME_TEXT, study.summary
    ratio = rf"^{unit}_per_second_batch_(\d+)_over_source$"
    batch = rows["metric"].str.extract(ratio)[0].astype(float)
    prompts = rows["task"].map(study.prompts_from).fillna("translation")
    rows = rows.assign(batch=batch, prompts=prompts)[batch.notna()]
    return rows[rows["batch"] == rows.groupby("task")["batch"].transform("min")]


def speed_up_of(study: StudyResults) -> dict[tuple[Model, str, str], dict[str, Any]]:
    """Model, language and kind of task -> its row of `speed_ups`."""
    rows = speed_ups(study)
    keys = zip(models_of(rows), rows["language"], rows["prompts"], strict=True)
    return dict(zip(keys, rows.to_dict("records"), strict=True))
