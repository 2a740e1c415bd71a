"""Generative question answering about a text, by causal models: exact match and F1."""

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from lexigraft.errors import UserError
from lexigraft.evaluation import prompts
from lexigraft.evaluation.answers import mlqa_scores, squad_scores
from lexigraft.evaluation.predictions import measure_predictions, predict
from lexigraft.evaluation.task_kinds import (
    Measurement,
    TaskKind,
    means,
    metrics_by_language,
    read_settings,
)
from lexigraft.evaluation.texts import draw
from lexigraft.settings import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


class QuestionAnsweringSettings(Settings):
    """How questions are asked."""

    # Questions per run in each language; none: all of them.
    samples: int | None = Field(None, ge=1)
    # Examples before each question, see `prompts.examples_and_tests`.
    shots: int = Field(0, ge=0)
    # If a prompt is longer, examples are left out first; then the context is truncated.
    max_prompt_tokens: int = Field(4096, ge=1)
    max_new_tokens: int = Field(32, ge=1)
    batch_size: int | None = Field(None, ge=1)  # maximum at a time; none: as many as fit
    # `labels`, in the language of the question, or an entry of `named` in
    # config/prompts/question_answering.yaml.
    prompt: str = prompts.LABELS
    # Whose rules decide whether answers are equal, see `answers`.
    normalization: Literal["mlqa", "squad"] = "mlqa"
    # ISO 639 code of contexts and answers if it differs from the tested language, for `mlqa`.
    answers_in: str | None = None
    # ISO 639 code of questions, and so of `labels`, if it differs from the tested language.
    questions_in: str | None = None


class LanguageQuestions(NamedTuple):
    """The questions of one language with their prompts; `cut` contexts were truncated."""

    rows: list[prompts.Row]
    texts: list[str]
    cut: int
    details: dict[str, Any]


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Ask the questions of each language that the cell is adapted to, and English ones.

    SALT (section 4.3, three examples), CW2V (section 4.6, four). Labels of the prompt are in the
    language of the test by default; decoding is greedy and stops at the first line feed. `f1` and
    `exact_match` are means over questions, from 0 to 100, then over languages
    (`task_kinds.metrics_by_language`).

    Writes `outputs["predictions"]`: one JSON object per question. `test` names its language, and
    its `prompt` followed the last `shots` of that language's examples in `details`. Raises
    `UserError` if there are too few questions, a prompt has no room for a context, or a setting is
    invalid.
    """
    settings = read_settings(QuestionAnsweringSettings, job)
    questions = {
        name: _questions_of(model, tokenizer, job, settings, name, code)
        for name, code in job["tested"].items()
    }
    asked = [row for one in questions.values() for row in one.rows]
    rows = predict(
        model,
        tokenizer,
        job,
        asked,
        [text for one in questions.values() for text in one.texts],
        max_new_tokens=settings.max_new_tokens,
        batch_size=settings.batch_size,
    )
    for row, question in zip(rows, asked, strict=True):
        row |= {key: question[key] for key in ("test", "prompt", "shots", "answers")}
        if settings.normalization == "squad":
            row |= squad_scores(row["output"], row["answers"])
        else:
            language = settings.answers_in or job["tested"][row["test"]]
            row |= mlqa_scores(row["output"], row["answers"], language)
    scores = {
        name: means([row for row in rows if row["test"] == name], "f1", "exact_match")
        for name in questions
    }
    details = {
        "cut_contexts": sum(one.cut for one in questions.values()),
        "tests": {name: one.details for name, one in questions.items()},
    }
    return measure_predictions(rows, model, job, metrics_by_language(scores), details)


TASK = TaskKind(
    QuestionAnsweringSettings,
    evaluate,
    tests="test_sets",
    test_texts={"questions": ("question",), "contexts": ("context",)},
    generates=True,
    every_language=True,
    prompts="question_answering",
    own_prompts=(prompts.LABELS,),
    columns={"question": "question", "context": "context", "answers": "answers.text"},  # SQuAD's
)


def _questions_of(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    job: dict[str, Any],
    settings: QuestionAnsweringSettings,
    name: str,
    code: str,
) -> LanguageQuestions:
    every = prompts.read_test_set(job, "tests", name) or []
    texts = ("question", "context")
    examples, tests = prompts.examples_and_tests(job, every, settings.shots, texts, name)
    tests = draw(tests, settings.samples, job, f"questions {name}")
    first, (before, between, after) = prompts.question_frame(
        job["inputs"]["prompts"], settings.questions_in or code, settings.prompt
    )

    def frame(row: prompts.Row) -> tuple[str, str]:
        return before, f"{between}{row['question']}{after}"

    limit = prompts.prompt_limit(model, settings.max_new_tokens, settings.max_prompt_tokens)
    assert limit is not None
    contexts, frames = [row["context"] for row in tests], [frame(row) for row in tests]
    whole = [(first + start, end) for start, end in frames]
    try:
        fitting = prompts.fit_texts(tokenizer, contexts, whole, limit)
    except prompts.NoRoomError as error:
        raise UserError(
            f"config/tasks.yaml: task '{job['task']}': a prompt of {limit} tokens has no room for "
            f"question {tests[error.at]['id']} ({name}); raise max_prompt_tokens (at most to the "
            "model's context), lower max_new_tokens, or remove the task"
        ) from None
    queries = [context.join(around) for context, around in zip(fitting, frames, strict=True)]
    answered = [(row["context"].join(frame(row)), row["answers"][0]) for row in examples]
    prompted = prompts.few_shot_prompts(
        tokenizer,
        queries,
        answered,
        limit,
        first,
        prompts.between_examples(job["inputs"]["prompts"], "question_answering", settings.prompt),
    )
    rows = [
        {
            "id": f"{name}-{row['id']}",
            "source": row["question"],
            "reference": row["answers"][0],
            "test": name,
            "prompt": query,
            "shots": shots,
            "answers": row["answers"],
        }
        for row, query, shots in zip(tests, queries, prompted.shots, strict=True)
    ]
    details = {"drawn_from": len(every), "questions": len(rows)}
    details |= prompted.details([row["id"] for row in examples])
    cut = sum(one != other for one, other in zip(contexts, fitting, strict=True))
    return LanguageQuestions(rows, prompted.texts, cut, details)
