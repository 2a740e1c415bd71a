"""Translation between English and the target language, scored with chrF, chrF++ and BLEU."""

from functools import partial
from typing import Any

from pydantic import Field

from lexigraft.evaluation.costs import (
    TRANSLATION_INSTRUCTION,
    TaskSizes,
    Work,
    generation,
    prompts_of_runs,
)
from lexigraft.evaluation.metric_kinds import TextMetrics, score_texts, scorers_of
from lexigraft.evaluation.prompts import few_shot_prompts, prompt_limit, translation_frame
from lexigraft.evaluation.task_kinds import TRANSLATIONS, Measurement, TaskKind, read_settings
from lexigraft.evaluation.texts import draw, examples_and_tests, read_own_or_corpus_tests
from lexigraft.settings import Settings


class TranslationSettings(Settings):
    """Defaults of Yamaguchi et al. (section 5, published scripts), who use batches of one.

    config/tasks.yaml explains the keys.
    """

    samples: int | None = Field(500, ge=1)
    redraw: bool = True
    max_new_tokens: int = Field(128, ge=1)
    batch_size: int | None = Field(None, ge=1)
    prompt: str = "instruction"
    into_english: bool = False
    shots: int = Field(0, ge=0)
    beams: int = Field(1, ge=1)
    skip_empty_lines: bool = False
    metrics: TextMetrics = Field(["chrf", "chrf_plus_plus", "bleu"])


def evaluate(model: Any, tokenizer: Any, job: dict[str, Any]) -> Measurement:
    """Translate a sample of parallel sentences, the task's own or the corpus's, and score them.

    An output ends at its first line feed, and an empty one scores 0. For the written predictions,
    see `predictions.predict_and_score`; the model reads the last `shots` examples in `details`,
    then `prompt`. Raises `UserError` if there are no parallel sentences, a prompt is too long for
    the model even without examples, or the prompt does not exist.
    """
    from lexigraft.evaluation.predictions import predict_and_score

    settings = read_settings(TranslationSettings, job)
    scorers = scorers_of(settings, "en" if settings.into_english else job["language"])
    pairs = read_own_or_corpus_tests(job, TRANSLATIONS)
    examples, tests = examples_and_tests(job, pairs, settings.shots, ("source", "target"))
    tests = draw(tests, settings.samples, job, "pairs")
    source, target = ("target", "source") if settings.into_english else ("source", "target")
    frame = translation_frame(job, settings.prompt, into_english=settings.into_english)
    queries = [frame.fill(pair[source]) for pair in tests]
    answered = [(pair["id"], frame.fill(pair[source]), pair[target]) for pair in examples]
    prompts = few_shot_prompts(tokenizer, frame, queries, answered, prompt_limit(model, settings))
    rows = [
        {
            "id": pair["id"],
            "source": pair[source],
            "reference": pair[target],
            "prompt": query,
            "shots": shots,
        }
        for pair, query, shots in zip(tests, queries, prompts.shots, strict=True)
    ]
    details = {"drawn_from": len(pairs), **prompts.details}
    score = partial(score_texts, scorers, details=details)
    return predict_and_score(model, tokenizer, job, settings, rows, prompts.texts, score)


def prompt_tokens(sizes: TaskSizes, n_examples: int = 0) -> float:
    """Tokens of a prompt: its examples and its sentence, each with a translation."""
    pairs = n_examples + 1
    return pairs * (sizes.english_sentence + sizes.sentence) + TRANSLATION_INSTRUCTION


def _cost(settings: TranslationSettings, sizes: TaskSizes) -> Work:
    prompts = prompts_of_runs(sizes, settings.samples, settings.redraw)
    length = prompt_tokens(sizes, settings.shots)
    return generation(prompts, length, settings.max_new_tokens, settings.beams)


TASK = TaskKind(
    TranslationSettings,
    evaluate,
    tests="corpus",
    cost=_cost,
    primary_metric="chrf",
    title="MT",
    corpus_tests=TRANSLATIONS,
    test_texts={"": ("target",)},
    rows="pairs",
    generates=True,
    prompts="translation",
    built_in_prompts=("instruction", "alma"),
)
