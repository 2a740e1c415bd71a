"""Scores of each model on each task (Yamaguchi et al., Tables 1, 5, 9 and 12)."""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lexigraft.report.items import BatchSize, Kind, Name, Refers, ScoreOptions
from lexigraft.report.metrics import metric, primary_metric
from lexigraft.report.models import Model, find, models, models_of, stub, stub_names
from lexigraft.report.names import initializer_name, task_name
from lexigraft.report.paired_tests import Column
from lexigraft.report.study import StudyResults
from lexigraft.report.table import Row, Table, is_compact, ranked, score_cell
from lexigraft.report.table_notes import lapt_note, missing_note, not_scored_notes, seed_notes
from lexigraft.report.table_tests import TableTests, changes_over_source, speed_tests
from lexigraft.report.tables.speed import SPEED_UP_NOTE, speed_up_cell, speed_ups, speeds

if TYPE_CHECKING:
    import pandas


class ResultOptions(ScoreOptions):
    """The options of a table of results."""

    speed_up_of: Annotated[
        Name | None,
        Refers("initializers"),
        Field(description="an initializer whose speed-up is the last row of each source model"),
    ] = None
    batch_size: Annotated[
        BatchSize | None, Field(description="of that speed-up; default: the smallest measured")
    ] = None


KIND = Kind(
    title="Results",
    caption="Scores of each initializer by language and task, beside Source and LAPT: mean ± "
    "sample standard deviation and change over Source. Blue (▲) is better than Source, red (▼) "
    "worse. Stars mark changes that are significant over other test examples and other seeds.",
    empty="no cell has a task that measures quality",
    options=ResultOptions,
)
# Model -> the rows of `speeds` under the columns of a table.
Ratios = dict[Model, list["pandas.Series | None"]]


def build(study: StudyResults, summary: "pandas.DataFrame") -> Table | None:
    """Rows Source, LAPT and the initializers, by source model; a column per language and task.

    With `speed_up_of`, a last row of each source model says how much faster that initializer's
    model writes the same text (Table 5).
    """
    chosen = models(study)
    columns = quality_columns(study, summary)
    if not columns or not chosen:
        return None
    strategy = study.reference_strategy
    title = f"Results under {strategy}" if strategy else "Results without training"
    return results_table(title, study, summary, chosen, columns)


def quality_columns(study: StudyResults, summary: "pandas.DataFrame") -> list[Column]:
    """`(language, task, metric)` of every task that measures quality, languages first.

    What an item asks for is a column even where no record has it, if the study is to run it on the
    language; and so is what could not be scored.
    """
    found = []
    item = study.item
    lost = {(one.cell["language"], one.task): one.score for one in study.not_scored
            if one.metric == one.task}  # fmt: skip
    for language in study.order("language"):
        own = summary.loc[summary["language"] == language, "task"].drop_duplicates()
        if own.empty:
            own = summary["task"].drop_duplicates()
        of_language = [task for where, task in lost if where == language]
        for task in item.tasks or dict.fromkeys([*map(str, own), *of_language]):
            if item.tasks and study.planned and (language, task) not in study.planned:
                continue
            in_language = summary["language"].eq(language) | bool(item.tasks)
            group = summary[in_language & (summary["task"] == task)]
            names = list(dict.fromkeys(group["metric"]))
            score = lost.get((language, task))
            if item.metrics:
                nowhere = set(item.metrics) - set(summary["metric"]) if item.tasks else set()
                shown = {*names, score, *nowhere}
                found += [(language, task, name) for name in item.metrics if name in shown]
            elif len(group) and (name := primary_metric(str(group["kind"].iloc[0]), names)):
                found.append((language, task, name))
            elif score:
                found.append((language, task, score))
    return found


def results_table(
    title: str,
    study: StudyResults,
    summary: "pandas.DataFrame",
    chosen: list[Model],
    columns: list[Column],
    stubs: list[tuple[str, ...]] | None = None,
    headers: tuple[str, ...] | None = None,
) -> Table:
    """Models by `(language, task, metric)`, with spread, change and shading."""
    headers = headers or stub_names(study)
    stubs = stubs or [stub(model, headers) for model in chosen]
    compact = is_compact(len(columns), len(headers))
    changes = changes_over_source(study, summary, chosen, columns)
    rows = []
    for model, left in zip(chosen, stubs, strict=True):
        scores = [find(summary, model, language=l_, task=t, metric=m) for l_, t, m in columns]
        cells = tuple(
            changes.starred(score_cell(score, metric(column[2]), compact=compact), model, column)
            for score, column in zip(scores, columns, strict=True)
        )
        rows.append(Row(left, cells, model.baseline, model.source))
    rows = ranked(rows, [metric(m).lower_is_better for _, _, m in columns])
    heads = column_heads(study, columns, compact)
    own = set(chosen)
    data = summary[[model in own for model in models_of(summary)]]
    shown = {(task, m) for _, task, m in columns}
    data = data[[pair in shown for pair in zip(data["task"], data["metric"], strict=True)]]
    data = changes.beside(data)
    third = "▲ blue: better" if compact else "Third number: change over Source. Blue: better"
    notes = [
        *seed_notes(study, chosen, data),
        *lapt_note(study, chosen),
        f"{third} than Source; {'▼ ' if compact else ''}red: worse; full colour at a "
        "change of 50 %. Bold: best, underlined: second, among the rows with new tokens.",
        *changes.notes,
        *(columns_note(study, columns) if compact else []),
        *not_scored_notes(study, shown),
        *missing_note(rows, heads),
    ]
    if study.item.option("speed_up_of"):
        ratios = _speed_ups(study, summary, chosen, columns)
        sources = [model for model in chosen if model.is_source]
        measured = [_measured(one) for row in ratios.values() for one in row if one is not None]
        tests = speed_tests(study, [*sources, *ratios], measured)
        rows = _with_speed_up(rows, chosen, ratios, tests, headers, compact)
        notes += [SPEED_UP_NOTE, *tests.notes]
        data = _with_speeds(data, ratios, tests)
    return Table(headers, heads, rows, data, notes, title)


def column_heads(
    study: StudyResults, columns: list[Column], compact: bool
) -> tuple[tuple[str, str], ...]:
    """A language over its tasks and metrics; short names if compact."""
    labels = _short(study, columns) if compact else {}
    return tuple(
        (study.language(language), labels.get((task, name)) or f"{task}: {_arrow(name)}")
        for language, task, name in columns
    )


def columns_note(study: StudyResults, columns: list[Column]) -> list[str]:
    """What the short names over the columns of a compact table stand for."""
    listed = ", ".join(
        f"{label}: {task}, {_arrow(name)}" for (task, name), label in _short(study, columns).items()
    )
    return [f"{listed}."]


def _short(study: StudyResults, columns: list[Column]) -> dict[tuple[str, str], str]:
    """`(task, metric)` -> `MT` for translation, the metric's name where that says more, or both."""
    pairs = list(dict.fromkeys((task, name) for _, task, name in columns))
    tasks = [task for task, _ in pairs]
    short = {task: task_name(task, study.kind(task)) for task in tasks}
    found = {}
    for task, name in pairs:
        # Two tasks of one kind have only their own names apart.
        label = task if list(short.values()).count(short[task]) > 1 else short[task]
        if (len(set(tasks)) == 1 and len(tasks) > 1) or study.kind(task) == "perplexity":
            label = metric(name).title
        elif tasks.count(task) > 1:
            label += f" {metric(name).title}"
        found[task, name] = label
    return found


def _speed_ups(
    study: StudyResults, summary: "pandas.DataFrame", chosen: list[Model], columns: list[Column]
) -> Ratios:
    """Of each model of the item's initializer: the speeds under the columns, None without one."""
    fast = speeds(summary)
    found: Ratios = {}
    for model in (m for m in chosen if m.initializer == study.item.option("speed_up_of")):
        own = speed_ups(study, fast, model)
        found[model] = [own.get((language, study.kind(task))) for language, task, _ in columns]
    return found


def _measured(ratio: "pandas.Series") -> Column:
    return str(ratio["language"]), str(ratio["task"]), str(ratio["metric"])


def _with_speed_up(
    rows: list[Row],
    chosen: list[Model],
    ratios: Ratios,
    tests: TableTests,
    headers: tuple[str, ...],
    compact: bool,
) -> list[Row]:
    """The rows with one more after each source model's: the speed-up of the item's initializer."""
    found = []
    for source in dict.fromkeys(model.source for model in chosen):
        found += [row for row in rows if row.group == source]
        for model in (model for model in ratios if model.source == source):
            cells = tuple(
                speed_up_cell(None)
                if one is None
                else tests.starred(speed_up_cell(one, compact), model, _measured(one))
                for one in ratios[model]
            )
            label = f"Speed-up ({initializer_name(model.initializer)})"
            found.append(Row((*stub(model, headers)[:-1], label), cells, group=source))
    return found


def _with_speeds(data: "pandas.DataFrame", ratios: Ratios, tests: TableTests) -> "pandas.DataFrame":
    """The data with the speeds behind the rows of speed-ups."""
    import pandas

    speeds_ = [one for row in ratios.values() for one in row if one is not None]
    if not speeds_:
        return data
    more = tests.beside(pandas.DataFrame(speeds_).drop_duplicates())
    return pandas.concat([data, more], ignore_index=True)


def _arrow(name: str) -> str:
    return f"{metric(name).title} {'↓' if metric(name).lower_is_better else '↑'}"
