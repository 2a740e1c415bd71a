"""Multiple choice with lm-evaluation-harness: which of several answers is the most likely?"""

import copy
from typing import Any

from pydantic import Field

from lexigraft.artifacts.atomic import write_jsonl
from lexigraft.errors import UserError
from lexigraft.evaluation.costs import CHOICE_TESTS, CHOICES, QUESTION, TaskSizes, Work
from lexigraft.evaluation.metric_kinds import ACCURACY, MetricKind
from lexigraft.evaluation.task_kinds import (
    Measurement,
    TaskKind,
    metrics_by_language,
    read_settings,
)
from lexigraft.evaluation.texts import draw
from lexigraft.randomness import seed_from
from lexigraft.settings import Settings


class MultipleChoiceSettings(Settings):
    """Defaults of the harness; config/tasks.yaml explains the keys."""

    shots: int = Field(0, ge=0)
    metric: str = "acc"
    samples: int | None = Field(None, ge=1)
    batch_size: int | None = Field(None, ge=1)


def evaluate(model: Any, tokenizer: Any, job: dict[str, Any]) -> Measurement:
    """Score a cell on its language, or each language of a group with the task, and on English.

    `accuracy` is from 0 to 1; see `metrics_by_language`. The harness's other metrics keep their
    names. Writes `outputs["predictions"]`: one JSON object per example; `test` is its language.
    Raises `UserError` if the task has no metric of that name.
    """
    from lexigraft.evaluation.harness.benchmarks import HARNESS
    from lexigraft.evaluation.harness.scoring import CellModel, score

    settings = read_settings(MultipleChoiceSettings, job)
    # A copy, since the harness gives its tokenizer a padding token.
    cell_model = CellModel(model, copy.deepcopy(tokenizer), settings.batch_size)
    seed = seed_from(*job["seed"], "shots")

    def drawn(task: str, count: int) -> list[int] | None:
        if settings.samples is None:
            return None
        return draw([*range(count)], settings.samples, job, task)

    scores: dict[str, dict[str, float]] = {}
    facts: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for test, folder in job["inputs"]["benchmarks"].items():
        metrics, examples, facts[test] = score(
            cell_model,
            folder,
            shots=settings.shots,
            by_length=settings.metric == "acc_norm",
            seed=seed,
            draw=drawn,
        )
        if settings.metric not in metrics:
            raise UserError(
                f"config/tasks.yaml: task '{job['task']}': metric '{settings.metric}' is not one "
                f"of {', '.join(metrics)}, the metrics that {HARNESS} computes for it"
            )
        scores[test] = {"accuracy": metrics.pop(settings.metric), **metrics}
        rows += [
            {**row, "id": f"{test}-{row['id']}", "test": test, "accuracy": row[settings.metric]}
            for row in examples
        ]
    write_jsonl(job["outputs"]["predictions"], rows)
    details = {
        "signature": f"{settings.metric} of {HARNESS}, {settings.shots}-shot",
        "tests": facts,
        "shots_seed": seed,
        "precision": str(model.dtype).removeprefix("torch."),
        "device": model.device.type,
    }
    return Measurement(metrics_by_language(scores), details)


def _cost(settings: MultipleChoiceSettings, sizes: TaskSizes) -> Work:
    questions = sizes.runs * sizes.languages * (settings.samples or CHOICE_TESTS)
    length = (settings.shots + 1) * QUESTION * sizes.sentence
    return Work("multiple choice", scored_tokens=questions * CHOICES * length)


TASK = TaskKind(
    MultipleChoiceSettings,
    evaluate,
    tests="benchmark",
    cost=_cost,
    primary_metric="accuracy",
    metrics=(
        ACCURACY,
        MetricKind("acc", "accuracy, plain", decimals=3),
        MetricKind("acc_norm", "accuracy by length", decimals=3),
    ),
    every_language=True,
)
