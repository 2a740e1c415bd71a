"""Generative question answering about a text, by causal models: exact match and F1."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from lexigraft.evaluation.answers import EXACT_MATCH, F1, mlqa_scores, squad_scores
from lexigraft.evaluation.costs import (
    CONTEXT,
    QUESTION,
    TaskSizes,
    Work,
    generation,
    prompts_of_runs,
)
from lexigraft.evaluation.task_kinds import (
    Measurement,
    TaskKind,
    means,
    metrics_by_language,
    read_settings,
)
from lexigraft.settings import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


class QuestionAnsweringSettings(Settings):
    """How questions are asked."""

    # Questions per run in each language; none: all of them.
    samples: int | None = Field(None, ge=1)
    # Examples before each question, see `few_shot.examples_and_tests`.
    shots: int = Field(0, ge=0)
    # If a prompt is longer, examples are left out first; then the context is truncated.
    max_prompt_tokens: int = Field(4096, ge=1)
    max_new_tokens: int = Field(32, ge=1)
    batch_size: int | None = Field(None, ge=1)  # maximum at a time; none: as many as fit
    # `labels`, in the language of the question, or an entry of `named` in
    # config/prompts/question_answering.yaml.
    prompt: str = "labels"
    # Whose rules decide whether answers are equal, see `answers`.
    normalization: Literal["mlqa", "squad"] = "mlqa"
    # ISO 639 code of contexts and answers if it differs from the tested language, for `mlqa`.
    answers_in: str | None = None
    # ISO 639 code of questions, and so of `labels`, if it differs from the tested language.
    questions_in: str | None = None


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Ask the questions of each language that the cell is adapted to, and English ones.

    SALT (section 4.3, three examples), CW2V (section 4.6, four). Labels of the prompt are in the
    language of the test by default; decoding is greedy and stops at the first line feed. `f1` and
    `exact_match` are means over questions, from 0 to 100, then over languages
    (`task_kinds.metrics_by_language`).

    Writes `outputs["predictions"]`: one JSON object per question. `test` names its language. The
    model reads the last `shots` of that language's examples in `details`, then `prompt`. Raises
    `UserError` if there are too few questions, a prompt has no room for a context, or a setting is
    invalid.
    """
    from lexigraft.evaluation.few_shot import question_prompts
    from lexigraft.evaluation.predictions import measure_predictions, predict

    settings = read_settings(QuestionAnsweringSettings, job)
    questions = {
        test: question_prompts(
            model,
            tokenizer,
            job,
            test,
            settings.questions_in or code,
            samples=settings.samples,
            shots=settings.shots,
            max_prompt_tokens=settings.max_prompt_tokens,
            max_new_tokens=settings.max_new_tokens,
            prompt=settings.prompt,
        )
        for test, code in job["tested"].items()
    }
    examples = [row for test in questions.values() for row in test.rows]
    rows = predict(
        model,
        tokenizer,
        job,
        examples,
        [prompt for test in questions.values() for prompt in test.prompts],
        max_new_tokens=settings.max_new_tokens,
        batch_size=settings.batch_size,
    )
    for row in rows:
        if settings.normalization == "squad":
            row |= squad_scores(row["output"], row["answers"])
        else:
            language = settings.answers_in or job["tested"][row["test"]]
            row |= mlqa_scores(row["output"], row["answers"], language)
    scores = {
        test: means([row for row in rows if row["test"] == test], "f1", "exact_match")
        for test in questions
    }
    details = {
        "cut_contexts": sum(test.truncated for test in questions.values()),
        "tests": {name: test.details for name, test in questions.items()},
    }
    return measure_predictions(rows, model, job, metrics_by_language(scores), details)


def _cost(settings: QuestionAnsweringSettings, sizes: TaskSizes) -> Work:
    prompts = prompts_of_runs(sizes, settings.samples)
    length = (settings.shots + 1) * (CONTEXT + QUESTION) * sizes.sentence
    length = min(length, settings.max_prompt_tokens)
    return generation(prompts, length, settings.max_new_tokens)


TASK = TaskKind(
    QuestionAnsweringSettings,
    evaluate,
    tests="test_sets",
    cost=_cost,
    primary_metric="f1",
    metrics=(F1, EXACT_MATCH),
    test_texts={"questions": ("question",), "contexts": ("context",)},
    rows="questions",
    columns={"question": "question", "context": "context", "answers": "answers.text"},  # SQuAD's
    generates=True,
    every_language=True,
    shows_outputs=True,
    prompts="question_answering",
    built_in_prompts=("labels",),
)
