"""Scores of each model on each task (Yamaguchi et al., Tables 1, 5, 9 and 12)."""

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from lexigraft.report.averages import (
    Averages,
    average_columns,
    average_notes,
    in_order,
    with_averages,
)
from lexigraft.report.items import Kind, Name, Refers, ScoreOptions, SpeedUpBatch
from lexigraft.report.metrics import metric, primary_metric
from lexigraft.report.models import COLUMN, Column, Model, find, models, models_of, stub, stub_names
from lexigraft.report.names import AVERAGE, initializer_name, task_name
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import Frame, SummaryRow, select
from lexigraft.report.table import FULL_SHADE_NOTE, Row, Table, is_compact, ranked, score_cell
from lexigraft.report.table_notes import (
    lapt_note,
    missing_note,
    noise_notes,
    not_scored_notes,
    seed_notes,
)
from lexigraft.report.tables.speed import SPEED_UP_NOTE, speed_up_cell, speed_ups, speeds


class ResultOptions(ScoreOptions):
    """The options of a table of results."""

    averages: Averages = ()
    speed_up_of: Annotated[
        Name | None,
        Refers("initializers"),
        Field(description="initializer whose speed-up is the last row of each source model"),
    ] = None
    batch_size: SpeedUpBatch = None


# The part of captions that explains scores.
HOW_SHOWN = (
    "Mean ± sample standard deviation and change over Source. Blue (▲) is better than Source, red "
    "(▼) worse."
)
KIND = Kind(
    title="Results",
    caption="Scores of each initializer by language and task, compared with Source and LAPT. "
    f"{HOW_SHOWN} Stars mark changes that are significant over test examples and seeds.",
    empty="no cell has a task that measures quality",
    options=ResultOptions,
)


def build(study: StudyResults) -> Table | None:
    """Rows Source, LAPT and the initializers, by source model; a column per language and task.

    With `averages`, there are also columns of means. With `speed_up_of`, the last row of each
    source model shows how much faster that initializer's model generates the same text (Table 5).
    """
    chosen = models(study)
    columns = quality_columns(study)
    if not columns or not chosen:
        return None
    strategy = study.reference_strategy
    title = f"Results under {strategy}" if strategy else "Results without training"
    return results_table(title, study, chosen, columns)


def quality_columns(study: StudyResults) -> list[Column]:
    """`(language, task, metric)` of every task that measures quality, languages first.

    What an item names is a column even without a record, if the study runs it on the language or
    if it could not be scored.
    """
    found = []
    item = study.item
    lost = {(one.cell["language"], one.task): one.score for one in study.not_scored
            if one.metric == one.task}  # fmt: skip
    for language in study.order("language"):
        own = select(study.summary, language=language)
        tasks = dict.fromkeys(map(str, (study.summary if own.empty else own)["task"]))
        tasks |= dict.fromkeys(task for where, task in lost if where == language)
        nowhere: set[str] = set()  # metrics that the item names and no record has
        if item.tasks:
            tasks = dict.fromkeys(item.tasks)
            nowhere, own = {*item.metrics} - {*study.summary["metric"]}, study.summary
        for task in tasks:
            if item.tasks and study.planned and (language, task) not in study.planned:
                continue
            group = own[own["task"] == task]
            names = list(dict.fromkeys(group["metric"]))
            score = lost.get((language, task))
            if item.metrics:
                shown = {*names, score, *nowhere}
                found += [(language, task, name) for name in item.metrics if name in shown]
            elif name := primary_metric(next(iter(group["kind"]), ""), names) or score:
                found.append((language, task, name))
    return found


def results_table(
    title: str,
    study: StudyResults,
    chosen: list[Model],
    columns: list[Column],
    stubs: list[tuple[str, ...]] | None = None,
    headers: tuple[str, ...] | None = None,
) -> Table:
    """Models by `(language, task, metric)`, with spread, change and shading."""
    from lexigraft.report.table_tests import changes_over_source

    headers = headers or stub_names(study)
    stubs = stubs or [stub(model, headers) for model in chosen]
    means = average_columns(study.item.option("averages") or (), columns)
    shown = in_order(columns, means)
    averaged = with_averages(study, means) if means else study
    compact = is_compact(len(shown), len(headers))
    changes = changes_over_source(study, chosen, columns)
    rows = []
    for model, left in zip(chosen, stubs, strict=True):
        cells = []
        for column in shown:
            noise = all(study.is_noise(model.source, one) for one in means.get(column, [column]))
            score = find(averaged, model, *column)
            cell = score_cell(score, metric(column[2]), compact=compact, noise=noise)
            cells.append(changes.starred(cell, model, column))
        rows.append(Row(left, tuple(cells), model.baseline, model.source))
    rows = ranked(rows, [metric(name).lower_is_better for *_, name in shown])
    heads, explained = column_heads(averaged, shown, compact)
    beside_columns = [
        (language, task, other)
        for language, task, name in columns
        if (other := metric(name).beside)
    ]
    data = _rows_of(averaged.summary, chosen, [*shown, *beside_columns])
    have = set(data["metric"])
    measured = map(metric, dict.fromkeys(name for *_, name in columns))
    beside = [one.beside_note for one in measured if one.beside in have]
    third = "▲ blue: better" if compact else "Third number: change over Source. Blue: better"
    notes = [
        *seed_notes(study, chosen, _rows_of(data, chosen, columns)),
        *lapt_note(study, chosen),
        f"{third} than Source; {'▼ ' if compact else ''}red: worse; {FULL_SHADE_NOTE}. Bold: best, "
        "underlined: second, among the rows with new tokens.",
        *changes.notes,
        *noise_notes(study, chosen, columns),
        *average_notes(study, means),
        *explained,
        *beside,
        *not_scored_notes(study, columns),
        *missing_note(rows, heads),
    ]
    table = Table(headers, heads, rows, changes.beside(data), notes, title)
    return _with_speed_ups(table, study, chosen, shown)


def _rows_of(summary: Frame, models: list[Model], columns: list[Column]) -> Frame:
    """The rows of a summary for these models and columns."""
    keys = summary[COLUMN].itertuples(index=False, name=None)
    shown, own = set(columns), set(models)
    return summary[[model in own and key in shown
                    for model, key in zip(models_of(summary), keys, strict=True)]]  # fmt: skip


def column_heads(
    study: StudyResults, columns: list[Column], compact: bool
) -> tuple[list[tuple[str, str]], list[str]]:
    """Column heads with a language over its tasks and metrics, and notes.

    If compact, a note explains short names: `MT` for translation, the metric's name if that is more
    specific, or both.
    """
    arrows = {name: f"{metric(name).title} {'↓' if metric(name).lower_is_better else '↑'}"
              for *_, name in columns}  # fmt: skip
    if not compact:
        return [(study.language(language), f"{task}: {arrows[name]}")
                for language, task, name in columns], []  # fmt: skip
    pairs = list(dict.fromkeys((task, name) for _, task, name in columns))
    tasks = [task for task, _ in pairs]
    short = {task: task_name(task, study.kind(task)) for task in tasks}
    labels = {}
    for task, name in pairs:
        # Two tasks of the same kind are distinguished by their own names.
        label = task if list(short.values()).count(short[task]) > 1 else short[task]
        if (len(short) == 1 and len(tasks) > 1) or study.kind(task) == "perplexity":
            label = metric(name).title
        elif tasks.count(task) > 1:
            label += f" {metric(name).title}"
        labels[task, name] = label
    listed = (f"{label}: {task}, {arrows[name]}" for (task, name), label in labels.items()
              if study.kind(task) != AVERAGE)  # fmt: skip
    heads = [(study.language(language), labels[task, name]) for language, task, name in columns]
    return heads, [f"{', '.join(listed)}."]


def _with_speed_ups(
    table: Table, study: StudyResults, chosen: list[Model], columns: list[Column]
) -> Table:
    """Add a last row for each source model: the speed-up of the item's initializer."""
    import pandas

    from lexigraft.report.table_tests import speed_tests

    initializer = study.item.option("speed_up_of")
    if not initializer:
        return table
    fast = speeds(study)
    ratios = {model: speed_ups(study, fast, model)
              for model in chosen if model.initializer == initializer}  # fmt: skip
    shown = [(language, study.kind(task)) for language, task, _ in columns]
    known = [own[key] for own in ratios.values() for key in shown if key in own]
    sources = [model for model in chosen if model.is_source]
    tests = speed_tests(study, [*sources, *ratios], [_column(row) for row in known])
    rows = []
    for source in dict.fromkeys(model.source for model in chosen):
        rows += [row for row in table.rows if row.group == source]
        for model, own in ratios.items():
            if model.source == source:
                cells = tuple(
                    tests.starred(speed_up_cell(own[key], table.compact), model, _column(own[key]))
                    if key in own
                    else speed_up_cell(None)
                    for key in shown
                )
                label = f"Speed-up ({initializer_name(initializer)})"
                rows.append(Row((*stub(model, stub_names(study))[:-1], label), cells, group=source))
    data = table.data
    if known:
        measured = tests.beside(pandas.DataFrame(known).drop_duplicates())
        data = pandas.concat([data, measured], ignore_index=True)
    return replace(table, rows=rows, data=data, notes=[*table.notes, SPEED_UP_NOTE, *tests.notes])


def _column(row: SummaryRow) -> Column:
    language, task, name = map(str, row[COLUMN])
    return language, task, name
