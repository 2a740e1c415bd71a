"""Sample outputs side by side: the source model's and the best cell's, from their predictions."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexigraft.report.models import models
from lexigraft.report.names import row_name
from lexigraft.report.study import StudyResults
from lexigraft.report.tables.results import quality_columns

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class SampleOutput:
    """One example: the prompt, the reference, and what the two models wrote."""

    prompt: str
    reference: str
    source: str | None
    source_score: float | None
    best: str
    best_score: float | None


@dataclass(frozen=True)
class SampleOutputs:
    """SampleOutputs of one language and task, by the score of the best cell, highest first."""

    language: str
    task: str
    best: str
    rows: tuple[SampleOutput, ...]


# Examples of each language and task, and how many where there are many of those.
_COUNT, _FEW = 4, 2
_MANY = 6
# Kinds of tasks whose predictions are no texts to read.
_TEXTLESS = ("perplexity", "multiple_choice", "speed")
_LONGEST = 300  # characters of a prompt: an article is recognized by its beginning


def sample_outputs(study: StudyResults, summary: "pandas.DataFrame") -> list[SampleOutputs]:
    """For each language and generation task: examples from the best to the worst, evenly spaced.

    Even spacing over the ranks shows the range and does not pick the flattering ones.
    """
    found = []
    tasks = dict.fromkeys(one.task for one in study.predictions)
    written = {task for task in tasks if study.kind(task) not in _TEXTLESS}
    columns = [column for column in quality_columns(study, summary) if column[1] in written]
    count = _COUNT if len(columns) <= _MANY else _FEW
    for language, task, name in columns:
        own = summary[
            (summary["language"] == language)
            & (summary["task"] == task)
            & (summary["metric"] == name)
        ]
        wanted = [model for model in models(study) if not model.baseline]
        ranked = own.sort_values("mean", ascending=False, kind="stable").to_dict("records")
        best = next((row for row in ranked if any(_is(row, m.keys()) for m in wanted)), None)
        if best is None:
            continue
        theirs = _predictions(study, task, best)
        untouched = {"initializer": "none", "strategy": "none", "source": best["source"]}
        ours = _predictions(study, task, {"language": language} | untouched)
        rows = sorted(theirs.values(), key=lambda row: -(row.get(name) or 0))
        if rows:
            at = range(count) if len(rows) > count else range(len(rows))
            step = (len(rows) - 1) / max(len(at) - 1, 1)
            chosen = [rows[round(i * step)] for i in at]
            label = row_name(best["initializer"], best["strategy"])
            shown = tuple(_sample(row, ours.get(row["id"]), name) for row in chosen)
            found.append(SampleOutputs(language, task, label, shown))
    return found


def _sample(row: dict[str, Any], source: dict[str, Any] | None, name: str) -> SampleOutput:
    prompt = row.get("source") or row.get("prompt", "")
    return SampleOutput(
        prompt=prompt if len(prompt) <= _LONGEST else prompt[:_LONGEST].rstrip() + "…",
        reference=row.get("reference", ""),
        source=source["output"] if source else None,
        source_score=source.get(name) if source else None,
        best=row["output"],
        best_score=row.get(name),
    )


def _predictions(
    study: StudyResults, task: str, wanted: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """The outputs of the first seed and run of a cell, by the id of the example."""
    axes = ("source", "language", "vocabulary", "initializer", "strategy")
    wanted = {axis: wanted[axis] for axis in axes if axis in wanted}
    fitting = [one for one in study.predictions if one.task == task and _is(one.cell, wanted)]
    if not fitting:
        return {}
    first = min(fitting, key=lambda one: (one.cell["seed"], one.run))
    return {row["id"]: row for row in first.rows() if row.get("test") != "english"}


def _is(row: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(row[axis] == value for axis, value in wanted.items())
