"""Sample outputs side by side: the source model's and the best cell's, from their predictions."""

from statistics import median
from typing import Any, NamedTuple

from lexigraft.report.metrics import metric
from lexigraft.report.models import Model, models, models_of
from lexigraft.report.names import row_name
from lexigraft.report.study import Predictions, StudyResults
from lexigraft.report.summarize import select
from lexigraft.report.tables.results import quality_columns

# Examples of each language and task, and how many where there are many of those.
_COUNT, _FEW = 4, 2
_MANY = 6
# Kinds of tasks whose predictions are no texts to read.
_TEXTLESS = ("perplexity", "multiple_choice", "speed")
_LONGEST = 300  # characters of a prompt: an article is recognized by its beginning


class SampleText(NamedTuple):
    """A text of an example: what it is, and the score of what a model wrote."""

    name: str
    text: str
    score: float | None = None


class SampleOutputs(NamedTuple):
    """Examples of one language and task: prompt, reference, the source model's and the best cell's.

    Ordered by the score of the best cell, highest first.
    """

    language: str
    task: str
    rows: list[list[SampleText]]


def sample_outputs(study: StudyResults) -> list[SampleOutputs]:
    """For each language and generation task: examples from the best to the worst, evenly spaced.

    Even spacing over the ranks shows the range and does not pick the flattering ones. After them,
    for each language and task that measures speed: what was written for its first prompts, in
    equally many tokens, and in how many seconds.
    """
    return [*_scored_outputs(study), *_timed_outputs(study)]


def _scored_outputs(study: StudyResults) -> list[SampleOutputs]:
    found = []
    tasks = dict.fromkeys(one.task for one in study.predictions)
    written = {task for task in tasks if study.kind(task) not in _TEXTLESS}
    columns = [column for column in quality_columns(study) if column[1] in written]
    wanted = {model for model in models(study) if not model.baseline}
    for language, task, name in columns:
        ranked = _ranked(study, language, task, name)
        best = next((model for model in ranked if model in wanted), None)
        if best is None:
            continue
        outputs = _predictions(study, language, task, best)
        rows = sorted(outputs.values(), key=lambda row: -(row.get(name) or 0))
        source = _predictions(study, language, task, Model(best.source, "source", "none", "none"))
        count = min(_COUNT if len(columns) <= _MANY else _FEW, len(rows))
        step = (len(rows) - 1) / max(count - 1, 1)
        label = row_name(best.initializer, best.strategy)
        shown = []
        for row in (rows[round(at * step)] for at in range(count)):
            prompt = row.get("source") or row.get("prompt", "")
            if len(prompt) > _LONGEST:
                prompt = prompt[:_LONGEST].rstrip() + "…"
            before = source.get(row["id"], {"output": "–"})
            shown.append(
                [
                    SampleText("Prompt", prompt),
                    SampleText("Reference", row.get("reference", "")),
                    SampleText("Source model", before["output"], before.get(name)),
                    SampleText(label, row["output"], row.get(name)),
                ]
            )
        if shown:
            found.append(SampleOutputs(language, task, shown))
    return found


def _timed_outputs(study: StudyResults) -> list[SampleOutputs]:
    found = []
    timed = dict.fromkeys(
        (one.cell["language"], one.task)
        for one in study.predictions
        if study.kind(one.task) == "speed" and _timing(one)["texts"]
    )
    for language, task in timed:
        best = next(
            (
                model
                for column in quality_columns(study)
                if column[0] == language
                for model in _ranked(study, *column)
                if not model.baseline and _first(study, language, task, model)
            ),
            None,
        )
        if best is None:
            continue
        source = Model(best.source, "source", "none", "none")
        named = {"Source model": source, row_name(best.initializer, best.strategy): best}
        written = {name: _first(study, language, task, model) for name, model in named.items()}
        texts = []
        for name, one in written.items():
            if one is not None:
                timing = _timing(one)
                seconds = median(timing["seconds"]) / len(timing["texts"])
                texts.append([SampleText(f"{name}, {seconds:.1f} s", t) for t in timing["texts"]])
                prompts = [SampleText("Prompt", prompt) for prompt in one.details["prompts"]]
        rows = [list(row) for row in zip(prompts, *texts, strict=True)]
        found.append(SampleOutputs(language, task, rows[:_COUNT]))
    return found


def _timing(one: Predictions) -> dict[str, Any]:
    """The timing of a speed record's smallest batch; without texts where it has none."""
    batches = [name for name in one.details if name.startswith("batch_")]
    smallest = min(batches, key=lambda name: int(name.removeprefix("batch_")), default=None)
    return {"texts": [], **(one.details[smallest] if smallest else {})}


def _ranked(study: StudyResults, language: str, task: str, name: str) -> list[Model]:
    """The models with a score, the best first."""
    own = select(study.summary, language=language, task=task, metric=name)
    rising = metric(name).lower_is_better
    return models_of(own.sort_values("mean", ascending=rising, kind="stable"))


def _predictions(
    study: StudyResults, language: str, task: str, model: Model
) -> dict[str, dict[str, Any]]:
    """The outputs of the first seed and run of a model, by the id of the example."""
    first = _first(study, language, task, model)
    rows = first.rows() if first else []
    return {row["id"]: row for row in rows if row.get("test") != "english"}


def _first(study: StudyResults, language: str, task: str, model: Model) -> Predictions | None:
    """What a model wrote in its first seed and run of a task."""
    cell = model.keys() | {"language": language}
    fitting = [one for one in study.predictions
               if one.task == task and cell.items() <= one.cell.items()]  # fmt: skip
    return min(fitting, key=lambda one: (one.cell["seed"], one.run), default=None)
