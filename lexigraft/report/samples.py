"""Sample outputs of the source model and the recommended cell, side by side."""

from statistics import median
from typing import Any, NamedTuple

from lexigraft.evaluation.task_kinds import ENGLISH, kinds, task_kind
from lexigraft.report.frame import (
    Column,
    Model,
    Predictions,
    StudyResults,
    source_model,
)
from lexigraft.report.models import quality_columns
from lexigraft.report.names import row_name
from lexigraft.report.pages.recommendation import recommend
from lexigraft.report.table import MISSING

# Number of examples per language and task, and the number if there are many of these.
_COUNT, _FEW = 4, 2
_MANY = 6
_LONGEST = 300  # maximum characters of a prompt; the beginning identifies an article


class SampleText(NamedTuple):
    """A text of an example and its title; for a model's output, its score and generation time."""

    name: str
    text: str
    score: float | None = None
    seconds: float | None = None


class SampleOutputs(NamedTuple):
    """Examples of one language and task: prompt, reference, and the outputs of both models."""

    title: str
    rows: list[list[SampleText]]


def sample_outputs(study: StudyResults) -> list[SampleOutputs]:
    """For each recommendation and generation task: evenly spaced examples.

    Even spacing over the ranks shows the range and avoids cherry-picking. Scores that are noise are
    not shown or used for sorting. Then, for each task that measures speed: the outputs for its
    first prompts, which have equal numbers of tokens.
    """
    tasks = dict.fromkeys(run.task for run in study.predictions)
    written = {task for task in tasks if _writes_text(study.task_kind(task))}
    columns = [column for column in quality_columns(study) if column[1] in written]
    most = _COUNT if len(columns) <= _MANY else _FEW
    samples = []
    for recommended in recommend(study):
        language, measured = recommended.language, recommended.measured
        for column in columns:
            if column[0] == language:
                rows = _samples(study, measured, column, most)
                samples.append(SampleOutputs(f"{study.language(language)}, {column[1]}", rows))
        for task in tasks:
            if study.task_kind(task) == "speed":
                rows = _timed_samples(study, measured, language, task)[:_COUNT]
                samples.append(SampleOutputs(f"{study.language(language)}, {task}", rows))
    return [sample for sample in samples if sample.rows]


def _writes_text(kind: str) -> bool:
    return task_kind(kind).shows_outputs if kind in kinds() else True


def _samples(
    study: StudyResults, model: Model, column: Column, most: int
) -> list[list[SampleText]]:
    """At most `most` examples of a task, with the outputs of a model's source and the model."""
    language, task, name = column
    source = source_model(model.source)
    of_source, of_model = (_outputs(study, language, task, one) for one in (source, model))
    rows = [*of_model.values()]
    noise = study.is_noise(model.source, column)
    if not noise:
        rows.sort(key=lambda row: -(row.get(name) or 0))
    count = min(most, len(rows))
    step = (len(rows) - 1) / max(count - 1, 1)
    samples = []
    for row in (rows[round(place * step)] for place in range(count)):
        prompt = row.get("source") or row.get("prompt", "")
        if len(prompt) > _LONGEST:
            prompt = prompt[:_LONGEST].rstrip() + "…"
        texts = [SampleText("Prompt", prompt), SampleText("Reference", row.get("reference", ""))]
        outputs = (of_source.get(row["id"], {"output": MISSING}), row)
        for title, output in zip(_titles(study, model), outputs, strict=True):
            score = None if noise else output.get(name)
            texts.append(SampleText(title, output["output"], score))
        samples.append(texts)
    return samples


def _timed_samples(
    study: StudyResults, model: Model, language: str, task: str
) -> list[list[SampleText]]:
    """The outputs of a model and its source for each prompt of the speed measurement."""
    source, measured = (
        _first(study, language, task, one) for one in (source_model(model.source), model)
    )
    if measured is None:
        return []
    columns = [[SampleText("Prompt", prompt) for prompt in measured.details["prompts"]]]
    for title, run in zip(_titles(study, model), (source, measured), strict=True):
        batches = [name for name in run.details if name.startswith("batch_")] if run else []
        if run is None or not batches:
            continue
        timing = run.details[min(batches, key=lambda name: int(name.removeprefix("batch_")))]
        if texts := timing.get("texts"):
            seconds = median(timing["seconds"]) / len(texts)
            columns.append([SampleText(title, text, None, seconds) for text in texts])
    return [list(row) for row in zip(*columns, strict=True)] if len(columns) > 1 else []


def _titles(study: StudyResults, model: Model) -> tuple[str, str]:
    """The titles of the outputs of a model's source and the model itself."""
    of_source = f" ({model.source})" if study.has_several_sources else ""
    best = f"Best configuration: {row_name(model.initializer, model.strategy)}"
    return f"Source model{of_source}", best


def _outputs(
    study: StudyResults, language: str, task: str, model: Model
) -> dict[str, dict[str, Any]]:
    """The outputs of the first seed and run of a model, by example id."""
    first = _first(study, language, task, model)
    rows = first.rows() if first else []
    return {row["id"]: row for row in rows if row.get("test") != ENGLISH}


def _first(study: StudyResults, language: str, task: str, model: Model) -> Predictions | None:
    """The predictions of a model in its first seed and run of a task."""
    cell = model.axes() | {"language": language}
    runs = [run for run in study.predictions
            if run.task == task and cell.items() <= run.cell.items()]  # fmt: skip
    return min(runs, key=lambda run: (run.cell["seed"], run.run), default=None)
