"""Tasks of lm-evaluation-harness whose answers are generated, such as IFEval and MGSM."""

from typing import Any

from pydantic import Field

from lexigraft.evaluation.costs import QUESTION, TESTS, TaskSizes, Work, generation
from lexigraft.evaluation.metric_kinds import ACCURACY, MetricKind
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.settings import Settings


class HarnessGenerationSettings(Settings):
    """Defaults of the harness; config/tasks.yaml explains the keys."""

    shots: int = Field(0, ge=0)
    metric: str = "exact_match"
    chat: bool = False
    samples: int | None = Field(None, ge=1)
    max_new_tokens: int | None = Field(None, ge=1)
    batch_size: int | None = Field(None, ge=1)


def evaluate(model: Any, tokenizer: Any, job: dict[str, Any]) -> Measurement:
    """Score greedy answers to the harness's tasks, see `score_tests`.

    With `chat`, the chat template must be that of the source, see `check_chat_template`.
    """
    from lexigraft.evaluation.harness.scoring import (
        GeneratingModel,
        check_chat_template,
        score_tests,
    )
    from lexigraft.source.model import open_tokenizer

    settings = read_settings(HarnessGenerationSettings, job)
    if settings.chat:
        check_chat_template(tokenizer, open_tokenizer(job["inputs"]["source"]))
    generating = GeneratingModel(model, tokenizer, settings.batch_size, settings.max_new_tokens)
    measurement = score_tests(generating, job, settings)
    measurement.details.update(generating.counts, chat=settings.chat)
    return measurement


def _cost(settings: HarnessGenerationSettings, sizes: TaskSizes) -> Work:
    prompts = sizes.runs * sizes.languages * (settings.samples or TESTS)
    length = (settings.shots + 1) * QUESTION * sizes.sentence
    return generation(prompts, length, settings.max_new_tokens or 256)


TASK = TaskKind(
    HarnessGenerationSettings,
    evaluate,
    tests="benchmark",
    cost=_cost,
    primary_metric="accuracy",
    metrics=(
        ACCURACY,
        *(
            MetricKind(f"{level}_level_{how}_acc", f"{what} followed, {how}", decimals=3)
            for level, what in (("prompt", "prompts"), ("inst", "instructions"))
            for how in ("strict", "loose")
        ),
        MetricKind("exact_match_flexible_extract", "exact match, last number", decimals=3),
        MetricKind("exact_match_strict_match", "exact match, as instructed", decimals=3),
    ),
    generates=True,
    every_language=True,
)
