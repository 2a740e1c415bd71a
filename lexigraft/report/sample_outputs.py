"""Sample outputs of the source model and the recommended cell, side by side."""

from statistics import median
from typing import Any, NamedTuple

from lexigraft.evaluation.task_kinds import ENGLISH
from lexigraft.report.models import AXES, Column, Model, models_of, source_model
from lexigraft.report.names import row_name
from lexigraft.report.recommendation import recommend
from lexigraft.report.study import Predictions, StudyResults
from lexigraft.report.summarize import select
from lexigraft.report.table import MISSING
from lexigraft.report.tables.results import quality_columns

# Number of examples per language and task, and the number if there are many of these.
_COUNT, _FEW = 4, 2
_MANY = 6
# Kinds of tasks whose predictions are not texts.
_TEXTLESS = ("perplexity", "multiple_choice", "speed")
_PACE = ("first_token_seconds_batch_1", "steps_per_second_batch_1")
_LONGEST = 300  # maximum characters of a prompt; the beginning identifies an article


class SampleText(NamedTuple):
    """A text of an example and its title; for a model's output, its score and generation time."""

    name: str
    text: str
    score: float | None = None
    seconds: float | None = None


class SampleOutputs(NamedTuple):
    """Examples of one language and task: prompt, reference, and the outputs of the source model and
    the recommended cell.

    Sorted by the score of the recommended cell, highest first, or as in the test set if scores are
    noise.
    """

    language: str
    task: str
    rows: list[list[SampleText]]


class _Pace(NamedTuple):
    """Speed of generating one text at a time: seconds to the first token, then steps per second.

    The first token takes longer, since the prompt is read before it.
    """

    first_token: float
    steps_per_second: float


def sample_outputs(study: StudyResults) -> list[SampleOutputs]:
    """For each recommendation and generation task: evenly spaced examples, with their times.

    Even spacing over the ranks shows the range and avoids cherry-picking. Scores that are noise are
    not shown or used for sorting. Then, for each task that measures speed: the outputs for its
    first prompts, which have equal numbers of tokens.
    """
    tasks = dict.fromkeys(one.task for one in study.predictions)
    written = {task for task in tasks if study.kind(task) not in _TEXTLESS}
    columns = [column for column in quality_columns(study) if column[1] in written]
    most = _COUNT if len(columns) <= _MANY else _FEW
    found = []
    for recommended in recommend(study):
        for column in (column for column in columns if column[0] == recommended.language):
            rows = _samples(study, recommended.measured, column, most)
            if rows:
                found.append(SampleOutputs(*column[:2], rows))
        for task in (task for task in tasks if study.kind(task) == "speed"):
            rows = _timed_samples(study, recommended.measured, recommended.language, task)
            if rows:
                found.append(SampleOutputs(recommended.language, task, rows[:_COUNT]))
    return found


def _samples(
    study: StudyResults, model: Model, column: Column, most: int
) -> list[list[SampleText]]:
    """At most `most` examples of a task, with the outputs of a model's source and the model."""
    language, task, name = column
    source = source_model(model.source)
    ours = _predictions(study, language, task, model)
    theirs = _predictions(study, language, task, source)
    rows = [*ours.values()]
    noise = study.is_noise(model.source, column)
    if not noise:
        rows.sort(key=lambda row: -(row.get(name) or 0))
    count = min(most, len(rows))
    step = (len(rows) - 1) / max(count - 1, 1)
    paces = [_pace(study, one, language, task) for one in (source, model)]
    found = []
    for row in (rows[round(at * step)] for at in range(count)):
        prompt = row.get("source") or row.get("prompt", "")
        if len(prompt) > _LONGEST:
            prompt = prompt[:_LONGEST].rstrip() + "…"
        texts = [SampleText("Prompt", prompt), SampleText("Reference", row.get("reference", ""))]
        outputs = (theirs.get(row["id"], {"output": MISSING}), row)
        for title, pace, own in zip(_titles(study, model), paces, outputs, strict=True):
            score = None if noise else own.get(name)
            texts.append(SampleText(title, own["output"], score, _seconds(pace, own)))
        found.append(texts)
    return found


def _timed_samples(
    study: StudyResults, model: Model, language: str, task: str
) -> list[list[SampleText]]:
    """The outputs of a model and its source for each prompt of the speed measurement."""
    records = [_first(study, language, task, one) for one in (source_model(model.source), model)]
    if records[1] is None:
        return []
    columns = [[SampleText("Prompt", prompt) for prompt in records[1].details["prompts"]]]
    for title, one in zip(_titles(study, model), records, strict=True):
        timing = _timing(one) if one else None
        if timing:
            seconds = median(timing["seconds"]) / len(timing["texts"])
            columns.append([SampleText(title, text, None, seconds) for text in timing["texts"]])
    return [list(row) for row in zip(*columns, strict=True)] if len(columns) > 1 else []


def _timing(one: Predictions) -> dict[str, Any] | None:
    """The timing of a speed record's smallest batch; None if it has no texts."""
    batches = [name for name in one.details if name.startswith("batch_")]
    smallest = min(batches, key=lambda name: int(name.removeprefix("batch_")), default=None)
    return one.details[smallest] if smallest and one.details[smallest].get("texts") else None


def _titles(study: StudyResults, model: Model) -> tuple[str, str]:
    """The titles of the outputs of a model's source and the model itself."""
    of = f" ({model.source})" if study.has_several_sources else ""
    best = f"Best configuration: {row_name(model.initializer, model.strategy)}"
    return f"Source model{of}", best


def _pace(study: StudyResults, model: Model, language: str, task: str) -> _Pace | None:
    """The measured pace of a cell, else of one with its vocabulary, which mainly determines it.

    Measured on prompts of the same kind of task, if available.
    """
    same = {"source": model.source, "language": language, "vocabulary": model.vocabulary}
    measured = select(study.summary, **same)
    wide = measured.pivot_table(index=["task", *AXES], columns="metric", values="mean", sort=False)
    if not {*_PACE} <= {*wide}:
        return None
    known = wide[[*_PACE]].dropna().reset_index()
    kinds = known["task"].map(study.prompts_from)
    other = [(one != model, kind != study.kind(task))
             for one, kind in zip(models_of(known), kinds, strict=True)]  # fmt: skip
    best = min(range(len(known)), key=other.__getitem__, default=None)
    return None if best is None else _Pace(*map(float, known.loc[best, [*_PACE]]))


def _seconds(pace: _Pace | None, row: dict[str, Any]) -> float | None:
    """The seconds that an output takes at this pace; None if either is unknown."""
    steps = row.get("steps")
    if pace is None or not steps:
        return None
    return pace.first_token + (steps - 1) / pace.steps_per_second


def _predictions(
    study: StudyResults, language: str, task: str, model: Model
) -> dict[str, dict[str, Any]]:
    """The outputs of the first seed and run of a model, by example id."""
    first = _first(study, language, task, model)
    rows = first.rows() if first else []
    return {row["id"]: row for row in rows if row.get("test") != ENGLISH}


def _first(study: StudyResults, language: str, task: str, model: Model) -> Predictions | None:
    """The predictions of a model in its first seed and run of a task."""
    cell = model.keys() | {"language": language}
    fitting = [one for one in study.predictions
               if one.task == task and cell.items() <= one.cell.items()]  # fmt: skip
    return min(fitting, key=lambda one: (one.cell["seed"], one.run), default=None)
