"""Sample outputs of the source model and the recommended cell, side by side."""

from typing import Any

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
Sample = list[tuple[str, str, float | None]]  # texts with their titles; of an output, its score


def sample_outputs(study: StudyResults) -> list[tuple[str, list[Sample]]]:
    """Title and examples for each recommendation and generation task, evenly spaced.

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
    return [
        (f"{study.language(language)}, {task}", samples)
        for advice in recommend(study)
        for language, task, name in columns
        if language == advice.language
        and (samples := _samples(study, advice.model, (language, task, name), count))
    ]


def _samples(study: StudyResults, model: Model, column: Column, count: int) -> list[Sample]:
    """Examples of a task: the prompt, the reference, and the outputs of Source and the model."""
    name, source = column[2], source_model(model.source)
    of_source, of_model = (_outputs(study, column, rival) for rival in (source, model))
    rows = [*of_model.values()]
    noise = study.is_noise(model.source, column)
    if not noise:
        rows.sort(key=lambda row: -(row.get(name) or 0))
    count = min(count, len(rows))
    step = (len(rows) - 1) / max(count - 1, 1)
    samples = []
    for row in (rows[round(place * step)] for place in range(count)):
        prompt = row.get("source") or row.get("prompt", "")
        if len(prompt) > _LONGEST:
            prompt = prompt[:_LONGEST].rstrip() + "…"
        texts: Sample = [("Prompt", prompt, None)]
        if reference := row.get("reference"):
            texts.append(("Reference", reference, None))
        for title, output in (
            ("Source model", of_source.get(row["id"], {"output": MISSING})),
            (f"Best configuration: {row_name(model.initializer, model.strategy)}", row),
        ):
            texts.append((title, output["output"], None if noise else output.get(name)))
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
    adapted = [row for row in rows if row.get("test") != ENGLISH]
    # A task in English alone, such as IFEval, has only that test.
    return {row["id"]: row for row in adapted or rows}
