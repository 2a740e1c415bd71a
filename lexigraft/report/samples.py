"""Sample outputs of the source model and the recommended cell, side by side."""

from typing import Any, NamedTuple

from lexigraft.evaluation.task_kinds import ENGLISH, kinds, task_kind
from lexigraft.report.frame import Column, Model, StudyResults, source_model
from lexigraft.report.models import quality_columns
from lexigraft.report.names import row_name
from lexigraft.report.pages.recommendation import recommend
from lexigraft.report.table import MISSING

# Number of examples per language and task, and the number if there are many of these.
_COUNT, _FEW = 4, 2
_MANY = 6
_LONGEST = 300  # maximum characters of a prompt; the beginning identifies an article


class SampleText(NamedTuple):
    """A text of an example and its title; for a model's output, its score."""

    name: str
    text: str
    score: float | None = None


class SampleOutputs(NamedTuple):
    """Examples of one language and task: prompt, reference, and the outputs of both models."""

    title: str
    rows: list[list[SampleText]]


def sample_outputs(study: StudyResults) -> list[SampleOutputs]:
    """For each recommendation and generation task: evenly spaced examples.

    Even spacing over the ranks shows the range and avoids cherry-picking. Scores that are noise are
    not shown or used for sorting.
    """
    tasks = {run.task: study.task_kind(run.task) for run in study.predictions}
    written = {
        task
        for task, kind in tasks.items()
        if kind not in kinds() or task_kind(kind).generates or task_kind(kind).fine_tunes
    }
    columns = [column for column in quality_columns(study) if column[1] in written]
    count = _COUNT if len(columns) <= _MANY else _FEW
    samples = []
    for recommended in recommend(study):
        language = recommended.language
        for column in columns:
            if column[0] == language:
                rows = _samples(study, recommended.model, column, count)
                samples.append(SampleOutputs(f"{study.language(language)}, {column[1]}", rows))
    return [sample for sample in samples if sample.rows]


def _samples(
    study: StudyResults, model: Model, column: Column, count: int
) -> list[list[SampleText]]:
    """Examples of a task, with the outputs of a model's source and the model."""
    name, source = column[2], source_model(model.source)
    of_source, of_model = (_outputs(study, column, rival) for rival in (source, model))
    rows = [*of_model.values()]
    noise = study.is_noise(model.source, column)
    if not noise:
        rows.sort(key=lambda row: -(row.get(name) or 0))
    count = min(count, len(rows))
    step = (len(rows) - 1) / max(count - 1, 1)
    titles = (
        "Source model" + (f" ({model.source})" if study.has_several_sources else ""),
        f"Best configuration: {row_name(model.initializer, model.strategy)}",
    )
    samples = []
    for row in (rows[round(place * step)] for place in range(count)):
        prompt = row.get("source") or row.get("prompt", "")
        if len(prompt) > _LONGEST:
            prompt = prompt[:_LONGEST].rstrip() + "…"
        texts = [SampleText("Prompt", prompt), SampleText("Reference", row.get("reference", ""))]
        outputs = (of_source.get(row["id"], {"output": MISSING}), row)
        for title, output in zip(titles, outputs, strict=True):
            texts.append(SampleText(title, output["output"], None if noise else output.get(name)))
        samples.append(texts)
    return samples


def _outputs(study: StudyResults, column: Column, model: Model) -> dict[str, dict[str, Any]]:
    """The outputs of the first seed and run of a model, by example id."""
    runs = [
        run
        for run in study.predictions_of.get(column[:2], ())
        if model.axes().items() <= run.cell.items()
    ]
    first = min(runs, key=lambda run: (run.cell["seed"], run.run), default=None)
    rows = first.rows() if first else []
    return {row["id"]: row for row in rows if row.get("test") != ENGLISH}
