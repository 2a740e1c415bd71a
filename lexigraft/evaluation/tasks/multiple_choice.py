"""Multiple choice with lm-evaluation-harness: which of several answers is the most likely?"""

from typing import Any

from pydantic import Field

from lexigraft.evaluation.costs import CHOICE_TESTS, CHOICES, QUESTION, TaskSizes, Work
from lexigraft.evaluation.metric_kinds import ACCURACY, MetricKind
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.settings import Settings


class MultipleChoiceSettings(Settings):
    """Defaults of the harness; config/tasks.yaml explains the keys."""

    shots: int = Field(0, ge=0)
    metric: str = "acc"
    samples: int | None = Field(None, ge=1)
    batch_size: int | None = Field(None, ge=1)


def evaluate(model: Any, tokenizer: Any, job: dict[str, Any]) -> Measurement:
    """Score a cell on the harness's tasks in its languages and in English, see `score_tests`."""
    from lexigraft.evaluation.harness.scoring import CellModel, score_tests

    settings = read_settings(MultipleChoiceSettings, job)
    return score_tests(CellModel(model, tokenizer, settings.batch_size), job, settings)


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
