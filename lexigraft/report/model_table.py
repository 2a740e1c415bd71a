"""Tables of models: scores, their changes over Source with tests, and the notes below them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

from pandas import DataFrame

from lexigraft.evaluation.metric_kinds import MetricKind
from lexigraft.report.frame import AXES, COLUMN, Column, Model, StudyResults, select
from lexigraft.report.models import (
    average_columns,
    average_notes,
    in_order,
    rows_of,
    stub,
    stub_names,
    with_averages,
)
from lexigraft.report.names import AVERAGE, listed, metric, row_name, task_name
from lexigraft.report.rendering import number
from lexigraft.report.significance import RESAMPLES, ScoreDifference, score_differences
from lexigraft.report.table import (
    FULL_SHADE,
    FULL_SHADE_NOTE,
    Row,
    Table,
    TableCell,
    compacted,
    is_compact,
    missing_note,
    ranked,
    shade_of,
)

# The part of captions that explains scores.
HOW_SHOWN = (
    "Mean ± sample standard deviation and change over Source. Blue (▲) is better than Source, red "
    "(▼) worse."
)
ColumnKey = TypeVar("ColumnKey")


@dataclass(frozen=True)
class TableTests:
    """Tests of the numbers in a table, by model and column, and notes on them."""

    tests: Mapping[tuple[Model, Column], ScoreDifference]
    notes: list[str]

    def starred(self, cell: TableCell, model: Model, column: Column) -> TableCell:
        """The cell with its stars, if it was tested."""
        test = self.tests.get((model, column))
        return replace(cell, stars=test.stars) if test and cell.value is not None else cell

    def join(self, data: DataFrame) -> DataFrame:
        """The table's data with the numbers of each test."""
        if not self.tests:
            return data
        rows = [
            model.axes() | dict(zip(COLUMN, column, strict=True)) | test.columns()
            for (model, column), test in self.tests.items()
        ]
        return data.merge(DataFrame(rows), on=[*AXES, *COLUMN], how="left")


def model_rows(
    models: Mapping[Model, tuple[str, ...]],
    columns: Iterable[ColumnKey],
    cell: Callable[[Model, ColumnKey], TableCell],
    higher_is_better: Sequence[bool | None],
    keep_changes: bool = False,
) -> list[Row]:
    """A row for each model with its names, and a cell for each column, ranked by source model."""
    rows = [
        Row(names, tuple(cell(model, key) for key in columns), model.baseline, model.source)
        for model, names in models.items()
    ]
    return compacted(ranked(rows, higher_is_better), keep_changes)


def results_table(
    title: str,
    study: StudyResults,
    rows: Sequence[Model],
    columns: list[Column],
    stubs: Sequence[tuple[str, ...]] | None = None,
    headers: tuple[str, ...] | None = None,
) -> Table:
    """Models by `(language, task, metric)`, with spread, change and shading."""
    headers = headers or stub_names(study)
    stubs = stubs or [stub(model, headers) for model in rows]
    means = average_columns(study.item.option("averages") or (), columns)
    shown = in_order(columns, means)
    averaged = with_averages(study, means) if means else study
    compact = is_compact(len(shown), len(headers))
    changes = changes_over_source(study, rows, columns)

    def cell(model: Model, column: Column) -> TableCell:
        noise = all(study.is_noise(model.source, part) for part in means.get(column, [column]))
        score = score_cell(averaged.find(model, *column), metric(column[2]), noise=noise)
        return changes.starred(score, model, column)

    higher = [metric(name).higher_is_better for *_, name in shown]
    table_rows = model_rows(dict(zip(rows, stubs, strict=True)), shown, cell, higher)
    heads, explained = column_heads(averaged, shown, compact)
    companions = [
        (language, task, companion.name)
        for language, task, name in columns
        if (companion := metric(name).companion)
    ]
    data = rows_of(averaged.summary, rows, [*shown, *companions])
    known = set(data["metric"])
    companion_notes = {
        metric(name).companion_note: None
        for *_, name in columns
        if (companion := metric(name).companion) and companion.name in known
    }
    third = "▲ blue: better" if compact else "Third number: change over Source. Blue: better"
    notes = [
        *seed_notes(study, rows, rows_of(data, rows, columns)),
        *lapt_note(study, rows),
        f"{third} than Source; {'▼ ' if compact else ''}red: worse; {FULL_SHADE_NOTE}. Bold: best, "
        "underlined: second, among the rows with new tokens.",
        *changes.notes,
        *noise_notes(study, rows, columns),
        *average_notes(study, means),
        *explained,
        *companion_notes,
        *not_scored_notes(study, columns),
        *missing_note(table_rows, heads),
    ]
    return Table(headers, heads, table_rows, changes.join(data), notes, title)


def score_cell(
    score: dict[str, Any] | None, shown: MetricKind, change: bool = True, noise: bool = False
) -> TableCell:
    """Mean, deviation and change from Source of one row of the summary.

    A score that is `noise` has no change.
    """
    if score is None:
        return TableCell()
    is_source = score["initializer"] == "none" and score["strategy"] == "none"
    compared = change and not (noise or is_source) and score["source_mean"] == score["source_mean"]
    shade = 0.0
    if compared and score["relative_change"] == score["relative_change"]:
        shade = shade_of(score["relative_change"] / FULL_SHADE, shown.higher_is_better)
    return TableCell(
        number(score["mean"], shown.decimals),
        number(score["std"], shown.decimals) if score["std"] == score["std"] else "",
        number(score["change"], shown.decimals, sign=True) if compared else "",
        shade,
        value=float(score["mean"]),
        noise=noise,
    )


def column_heads(
    study: StudyResults, columns: list[Column], compact: bool
) -> tuple[list[tuple[str, str]], list[str]]:
    """Column heads with a language over its tasks and metrics, and notes.

    If compact, a note explains short names: `MT` for translation, the metric's name if that is more
    specific, or both.
    """
    arrows = {
        name: f"{metric(name).title} {'↑' if metric(name).higher_is_better else '↓'}"
        for *_, name in columns
    }
    pairs = list(dict.fromkeys((task, name) for _, task, name in columns))
    labels = {(task, name): f"{task}: {arrows[name]}" for task, name in pairs}
    explained = []
    if compact:
        tasks = [task for task, _ in pairs]
        short = {task: task_name(task, study.task_kind(task)) for task in tasks}
        for task, name in pairs:
            # Two tasks of the same kind are distinguished by their own names.
            label = task if list(short.values()).count(short[task]) > 1 else short[task]
            if (len(short) == 1 and len(tasks) > 1) or study.task_kind(task) == "perplexity":
                label = metric(name).title
            elif tasks.count(task) > 1:
                label += f" {metric(name).title}"
            labels[task, name] = label
            if study.task_kind(task) != AVERAGE:
                explained.append(f"{label}: {task}, {arrows[name]}")
    heads = [(study.language(language), labels[task, name]) for language, task, name in columns]
    return heads, [f"{', '.join(explained)}."] if compact else []


def changes_over_source(
    study: StudyResults, rows: Sequence[Model], columns: list[Column]
) -> TableTests:
    """Test each model against its source model, corrected over the table; without noise."""
    sources = {model.source: model for model in rows if model.is_source}
    changed = [
        (model, sources[model.source], column)
        for column, model in product(columns, rows)
        if model.source in sources
        and not model.is_source
        and not study.is_noise(model.source, column)
    ]
    differences = score_differences(study, changed)
    tested = {test.column for test in differences}
    untested: dict[str, None] = {}
    for model, _, column in changed:
        score = study.find(model, *column)
        if column not in tested and score is not None and score["change"] == score["change"]:
            untested[f"{column[1]} ({metric(column[2]).title})"] = None
    notes = bootstrap_notes(differences, "changes over Source")
    if untested:
        notes.append(
            "Changes not tested, because the outputs of both models on each example are needed: "
            f"{', '.join(untested)}."
        )
    return TableTests({(test.model, test.column): test for test in differences}, notes)


def bootstrap_notes(differences: Sequence[ScoreDifference], what: str) -> list[str]:
    """Notes on the stars of a table; `what` was compared, such as `differences to Source`."""
    if not differences:
        return []
    note = (
        "* p < 0.05, ** p < 0.01: paired bootstrap over test examples and seeds, "
        f"{RESAMPLES:,} resamples"
    )
    if len(differences) > 1:
        note += (
            f", p corrected for the {len(differences)} {what} in this table (Benjamini-Hochberg)"
        )
    notes = [f"{note}."]
    single = [test for test in differences if not test.freedom and test.model.strategy != "none"]
    if single:
        which = "In this table" if len(single) == len(differences) else f"In {len(single)} of them"
        notes.append(
            f"{which} no model has several seeds: the test covers other examples only, not "
            "training with other seeds."
        )
    return notes


def seed_notes(study: StudyResults, rows: Sequence[Model], summary: DataFrame) -> list[str]:
    """Notes on the number of seeds, and on missing seeds."""

    def joined(seeds: Iterable[int]) -> str:
        return ", ".join(map(str, seeds))

    seeds = study.seeds
    several = len(seeds) > 1
    over_runs = summary[summary["over"] == "runs"]
    runs = "; mean ± sample standard deviation." if several else "; no deviation is shown."
    if not several and len(over_runs):
        runs = f", {over_runs['n_runs'].max()} runs; mean ± sample standard deviation over runs."
    notes = [f"n = {len(seeds)} seed{'s' if several else ''} ({joined(seeds)}){runs}"]
    trained = study.scores[study.scores["strategy"] != "none"]
    # A study may measure a task on only some seeds.
    planned = {
        str(task): sorted(map(int, group.unique()))
        for task, group in trained.groupby("task", sort=False)["seed"]
    }
    several_vocabularies = len({model.vocabulary for model in rows if not model.baseline}) > 1
    missing: dict[tuple[str, str], dict[str, None]] = {}  # task and seeds -> models and languages
    for model in (model for model in rows if model.strategy != "none"):
        name = row_name(model.initializer, model.strategy)
        if several_vocabularies and not model.baseline:
            name = f"{model.vocabulary} {name}"
        scored = select(summary, **model.axes()).drop_duplicates(["language", "task"])
        for language, task, known in scored[["language", "task", "seeds"]].itertuples(index=False):
            absent = [seed for seed in planned[task] if str(seed) not in known.split()]
            if absent:
                cells = missing.setdefault((task, joined(absent)), {})
                cells[f"{name} in {study.language(language)}"] = None
    notes += [
        f"{task}: no seed {absent} for {', '.join(cells)}."
        for (task, absent), cells in missing.items()
    ]
    if several and len(over_runs):
        notes.append("Cells with one seed and several runs show the deviation over runs.")
    return notes


def lapt_note(study: StudyResults, rows: Sequence[Model]) -> list[str]:
    """Name LAPT's strategy if it is not the reference strategy and no column shows it."""
    if study.compared_strategies:
        return []
    several = len({model.source for model in rows}) > 1
    return [
        f"LAPT{f' of {model.source}' if several else ''} was trained with {model.strategy}."
        for model in rows
        if model.baseline and model.strategy not in ("none", study.reference_strategy)
    ]


def noise_notes(study: StudyResults, rows: Sequence[Model], columns: Iterable[Column]) -> list[str]:
    """Notes on scores of a table that are noise, because even the best model's is too low."""
    sources = dict.fromkeys(model.source for model in rows)
    panels: dict[tuple[str, str], list[str]] = {}  # task and metric -> languages and source models
    for source, (language, task, name) in product(sources, columns):
        if study.is_noise(source, (language, task, name)):
            panels.setdefault((task, name), []).append(study.panel_title(source, language))
    return [
        f"{task}, {listed(titles)}: no model reaches {metric(name).noise:g} {metric(name).title}. "
        "Such scores are noise: they are not compared, ranked or tested."
        for (task, name), titles in panels.items()
    ]


def not_scored_notes(study: StudyResults, columns: Iterable[Column]) -> list[str]:
    """Why learned metrics have no score, for the columns of a table."""
    shown = set(columns)
    reasons = Counter(
        (metric(run.score).title, run.why)
        for run in study.not_scored
        if (run.cell["language"], run.task, run.score) in shown
    )
    return [
        f"{title} not scored ({count} run{'s' if count > 1 else ''}): {why}"
        for (title, why), count in reasons.items()
    ]
