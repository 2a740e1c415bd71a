"""Tables of models: scores, their changes over Source with tests, and the notes below them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from pandas import DataFrame

from lexigraft.evaluation.metric_kinds import MetricKind
from lexigraft.report.frame import AXES, COLUMN, Column, Model, StudyResults
from lexigraft.report.models import (
    average_columns,
    average_notes,
    in_order,
    rows_of,
    stub,
    stub_names,
    with_averages,
)
from lexigraft.report.names import (
    AVERAGE,
    initializer_name,
    is_per_token,
    listed,
    metric,
    task_name,
)
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
    number,
    ranked,
    shade_of,
)

# The part of captions that explains scores.
HOW_SHOWN = (
    "Mean ± sample standard deviation and change over Source. Blue (▲) is better than Source, red "
    "(▼) worse."
)
# The second number of a cell, by the option `change`.
_CHANGES = {
    "difference": "change over",
    "percent": "change in percent over",
    "share": "share of",
    "times": "how many times as good as",
}


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
    how = study.item.option("change") or "difference"
    compact = is_compact(len(shown), len(headers))
    relative_to = study.item.option("relative_to")
    baselines: dict[str, Model] = {}  # by source model
    for model in rows:
        if model.initializer == relative_to if relative_to else model.is_source:
            baselines.setdefault(model.source, model)
    tests, test_notes = changes_over(study, baselines, rows, columns)

    def cell(model: Model, column: Column) -> TableCell:
        noise = all(study.is_noise(model.source, part) for part in means.get(column, [column]))
        score, baseline = averaged.find(model, *column), baselines.get(model.source)
        level = averaged.find(baseline, *column) if baseline not in (None, model) else None
        shown = score_cell(score, metric(column[2]), level, how, noise)
        if model.baseline and score is not None and is_per_token(column[2]):
            shown = replace(shown, text=f"{shown.text}†")
        test = tests.get((model, column))
        return replace(shown, stars=test.stars) if test and score is not None else shown

    table_rows = [
        Row(names, tuple(cell(model, key) for key in shown), model.baseline, model.source)
        for model, names in zip(rows, stubs, strict=True)
    ]
    # More tokens per second are not better: tokens differ.
    directions = [
        None if is_per_token(name) and metric(name).higher_is_better
        else metric(name).higher_is_better
        for *_, name in shown
    ]  # fmt: skip
    table_rows = compacted(ranked(table_rows, directions), keep_changes=how != "difference")
    heads, explained = column_heads(averaged, shown, compact)
    companions = [
        (language, task, companion.name)
        for language, task, name in columns
        if (companion := metric(name).companion)
    ]
    data = rows_of(averaged.summary, rows, [*shown, *companions])
    known = set(data["metric"])
    over = initializer_name(relative_to) if relative_to else "Source"
    notes = [
        *seed_notes(study, rows_of(data, rows, columns)),
        *lapt_note(study, rows),
        f"{'' if compact and how == 'difference' else f'Third number: {_CHANGES[how]} {over}. '}"
        f"▲ blue: better than {over}; ▼ red: worse; {FULL_SHADE_NOTE}. Bold: best, underlined: "
        "second, among the rows with new tokens.",
        *test_notes,
        *noise_notes(study, rows, columns),
        *average_notes(study, means),
        *explained,
        *dict.fromkeys(
            metric(name).companion_note
            for *_, name in columns
            if (companion := metric(name).companion) and companion.name in known
        ),
        *not_scored_notes(study, columns),
        *missing_note(table_rows, heads),
    ]
    if any(is_per_token(name) for *_, name in columns):
        notes.append(
            "Numbers per token are not comparable across vocabularies, only among the rows without "
            "†. Bits per byte and speeds on the same text are always comparable."
        )
    if tests:
        numbers = [
            model.axes() | dict(zip(COLUMN, column, strict=True)) | test.columns()
            for (model, column), test in tests.items()
        ]
        data = data.merge(DataFrame(numbers), on=[*AXES, *COLUMN], how="left")
    return Table(headers, heads, table_rows, data, notes, title)


def score_cell(
    score: dict[str, Any] | None,
    shown: MetricKind,
    baseline: dict[str, Any] | None = None,
    how: str = "difference",
    noise: bool = False,
) -> TableCell:
    """Mean, deviation and change from a baseline of one row of the summary.

    A score that is `noise`, or that compares no two vocabularies, has no change.
    """
    if score is None:
        return TableCell()
    mean, change, shade = float(score["mean"]), "", 0.0
    if baseline is not None and not noise and not is_per_token(shown.name):
        level = float(baseline["mean"])
        if how == "difference":
            change = number(mean - level, shown.decimals, sign=True)
        elif level and mean:
            times = mean / level if shown.higher_is_better else level / mean
            change = {
                "percent": f"{number(100 * (mean - level) / abs(level), 1, sign=True)} %",
                "share": f"{number(100 * mean / level, 2)} %",
                "times": f"{number(times, 2)}×",
            }[how]
        if level:
            relative = (mean - level) / abs(level)
            shade = shade_of(relative / FULL_SHADE, shown.higher_is_better)
    return TableCell(
        number(mean, shown.decimals),
        number(score["std"], shown.decimals) if score["std"] == score["std"] else "",
        change,
        shade,
        value=mean,
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
        # The name of a speed task is that of the tasks whose prompts it continues.
        kinds = {task: study.prompts_from.get(task) or study.task_kind(task) for task in tasks}
        short = {task: task_name(task, kind) for task, kind in kinds.items()}
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
    if compact and len(pairs) == 1:
        heads = [("", language) for language, _ in heads]
        return heads, [f"All columns: {pairs[0][0]}, {arrows[pairs[0][1]]}."]
    return heads, [f"{', '.join(explained)}."] if compact else []


def changes_over(
    study: StudyResults,
    baselines: Mapping[str, Model],
    rows: Sequence[Model],
    columns: Sequence[Column],
) -> tuple[dict[tuple[Model, Column], ScoreDifference], list[str]]:
    """Test each model against the baseline of its source model, corrected over the table.

    Scores that are noise are not tested. Returns the tests by model and column, and notes on them.
    """
    changed = [
        (model, baselines[model.source], column)
        for column, model in product(columns, rows)
        if baselines.get(model.source) not in (None, model)
        and not study.is_noise(model.source, column)
        and not is_per_token(column[2])
    ]
    differences = score_differences(study, changed)
    tested = {test.column for test in differences}
    untested = dict.fromkeys(
        f"{column[1]} ({metric(column[2]).title})"
        for model, baseline, column in changed
        if column not in tested and study.find(model, *column) and study.find(baseline, *column)
    )
    notes = bootstrap_notes(differences)
    if untested:
        notes.append(
            "Not tested, for lack of scores of single examples by both models: "
            f"{', '.join(untested)}."
        )
    return {(test.model, test.column): test for test in differences}, notes


def bootstrap_notes(differences: Sequence[ScoreDifference]) -> list[str]:
    """A note on the stars of a table."""
    if not differences:
        return []
    note = (
        "* p < 0.05, ** p < 0.01: paired bootstrap over test examples and seeds, "
        f"{RESAMPLES:,} resamples"
    )
    if len(differences) > 1:
        note += f", p corrected for {len(differences)} differences (Benjamini-Hochberg)"
    if single := sum(not test.freedom and test.model.strategy != "none" for test in differences):
        note += f"; {single} of them over examples alone, as no model has several seeds"
    return [f"{note}."]


def seed_notes(study: StudyResults, summary: DataFrame) -> list[str]:
    """Notes on the number of seeds, and on numbers over fewer seeds."""
    seeds, over_runs = study.seeds, summary[summary["over"] == "runs"]
    names = f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''} ({', '.join(map(str, seeds))})"
    if len(seeds) > 1:
        shown = "; mean ± sample standard deviation (of runs, where a cell has one seed)."
    elif len(over_runs):
        shown = f", {over_runs['n_runs'].max()} runs; mean ± sample standard deviation over runs."
    else:
        shown = "; no deviation is shown."
    notes = [f"n = {names}{shown}"]
    trained = study.scores[study.scores["strategy"] != "none"]
    # A study may measure a task on only some seeds.
    planned = summary["task"].map(trained.groupby("task")["seed"].nunique())
    if fewer := int(((summary["strategy"] != "none") & (summary["n_seeds"] < planned)).sum()):
        notes.append(f"Over fewer seeds, which the CSV file names: {fewer} of the numbers.")
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
