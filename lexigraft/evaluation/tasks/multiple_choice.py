"""Multiple choice by lm-evaluation-harness: which of several answers is the likeliest?"""

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.atomic import write_jsonl
from lexigraft.errors import UserError
from lexigraft.evaluation.predictions import model_digest
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.evaluation.texts import draw
from lexigraft.evaluation.transfer import metrics_by_language, of_adapted_languages
from lexigraft.randomness import seed_from

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lexigraft.evaluation.harness.scoring import ResumableModel, Scored

BY_LENGTH = "acc_norm"


@dataclass(frozen=True)
class MultipleChoiceSettings:
    """Defaults of the harness; entries of config/tasks.yaml say how many examples a paper shows.

    Attributes
    ----------
    shots
        Examples shown before each question.
    metric
        Which of the harness's metrics is the `accuracy` of the record: `acc`, or `acc_norm`, which
        divides log-likelihoods by the number of characters of the answer.
    samples
        Examples of a run, drawn of each task of the harness; none: all of them.
    batch_size
        Answers read together.
    """

    shots: int = 0
    metric: str = "acc"
    samples: int | None = None
    batch_size: int = 8


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Score a cell in place, on its language, on each of a group's that has the task, and English.

    `accuracy` is the mean over the languages that the cell is adapted for, from 0 to 1; of a group
    each has its own (`accuracy_<language>`), and English has (`english_accuracy`). The harness's
    other metrics are beside it under its names.

    Writes `outputs["predictions"]`: one JSON object per example; `test` is its language.

    Raises
    ------
    UserError
        The task has no metric of that name.
    """
    # The harness takes seconds to import, and no other task needs it.
    from lexigraft.evaluation.harness.benchmarks import HARNESS
    from lexigraft.evaluation.harness.scoring import ResumableModel

    settings = read_settings(MultipleChoiceSettings, job)
    folder = Path(job["outputs"]["folder"])
    identity = model_digest(job, model)
    # A copy, since the harness gives its tokenizer a padding token.
    resumable = ResumableModel(
        model,
        copy.deepcopy(tokenizer),
        batch_size=settings.batch_size,
        folder=folder,
        identity=identity,
    )
    seed = seed_from(*job["seed"], "shots")
    found = {
        test: _score(resumable, Path(place), settings, seed, job)
        for test, place in job["inputs"]["benchmarks"].items()
    }
    scores = {test: _metrics(scored, settings, job) for test, scored in found.items()}
    own = of_adapted_languages(scores)
    common = set.intersection(*(set(score) for score in own.values()))
    for test, score_ in own.items():
        scores[test] = {metric: score_[metric] for metric in score_ if metric in common}
    rows = [
        _row(test, row, settings.metric) for test, scored in found.items() for row in scored.rows
    ]
    write_jsonl(job["outputs"]["predictions"], rows)
    resumable.remove_partial()
    details = {
        "signature": f"{settings.metric} of {HARNESS}, {settings.shots}-shot",
        "tests": {test: scored.facts for test, scored in found.items()},
        "shots_seed": seed,
        "precision": str(model.dtype).removeprefix("torch."),
        "device": model.device.type,
    }
    return Measurement(metrics_by_language(scores), details)


TASK = TaskKind(MultipleChoiceSettings, evaluate, tests="benchmark", every_language=True)


def _score(
    model: "ResumableModel",
    place: Path,
    settings: MultipleChoiceSettings,
    seed: int,
    job: dict[str, Any],
) -> "Scored":
    from lexigraft.evaluation.harness.benchmarks import DATA
    from lexigraft.evaluation.harness.scoring import score

    card = json.loads((place / "card.json").read_text("utf-8"))
    return score(
        model,
        card["task"],
        card["definition"],
        place / DATA,
        shots=settings.shots,
        by_length=settings.metric == BY_LENGTH,
        seed=seed,
        draw=lambda task, count: (
            None if settings.samples is None else draw([*range(count)], settings.samples, job, task)
        ),
    )


def _metrics(
    scored: "Scored", settings: MultipleChoiceSettings, job: dict[str, Any]
) -> dict[str, float]:
    """The harness's metrics, of which one is the accuracy."""
    from lexigraft.evaluation.harness.benchmarks import HARNESS

    if settings.metric not in scored.metrics:
        raise UserError(
            f"config/tasks.yaml: task '{job['task']}': metric '{settings.metric}' is none of "
            f"{', '.join(scored.metrics)}, which {HARNESS} has of it"
        )
    others = {name: value for name, value in scored.metrics.items() if name != settings.metric}
    return {"accuracy": scored.metrics[settings.metric], **others}


def _row(test: str, row: dict[str, Any], metric: str) -> dict[str, Any]:
    """A row with its language, and the metric that is the accuracy under this name too."""
    return {**row, "id": f"{test}-{row['id']}", "test": test, "accuracy": row[metric]}
