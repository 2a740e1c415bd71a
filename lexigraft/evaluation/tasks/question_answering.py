"""Questions about a text that a causal model answers in words of its own: exact match and F1."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError
from lexigraft.evaluation.answers import (
    mlqa_exact_match,
    mlqa_f1,
    squad_exact_match,
    squad_f1,
)
from lexigraft.evaluation.few_shot import (
    Prompts,
    examples_and_tests,
    few_shot_prompts,
    prompt_limit,
    read_test_set,
)
from lexigraft.evaluation.predictions import conditions, predict, token_metrics, write_predictions
from lexigraft.evaluation.prompts import NoRoomError, question_frame, truncate_article
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.evaluation.texts import draw
from lexigraft.evaluation.transfer import metrics_by_language

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lexigraft.evaluation.few_shot import Row


@dataclass(frozen=True)
class QuestionAnsweringSettings:
    """How questions are questions.

    Attributes
    ----------
    samples
        Questions of a run in each language; none: all of them.
    shots
        Examples before each question, see `few_shot.examples_and_tests`.
    max_prompt_tokens
        Tokens of a prompt at most; first examples are left out, then the context loses its end.
    max_new_tokens
        Tokens generated at most.
    batch_size
        Questions answered together.
    normalization
        Whose rules decide when answers are equal, `mlqa` or `squad`, see `answers`.
    answers_in
        ISO 639 code of contexts and answers where it is not the question's, for `mlqa`.
    """

    samples: int | None = None
    shots: int = 0
    max_prompt_tokens: int = 4096
    max_new_tokens: int = 32
    batch_size: int = 8
    normalization: str = "mlqa"
    answers_in: str | None = None


@dataclass(frozen=True)
class LanguageQuestions:
    """The questions of one language with their prompts; `cut` contexts lost their ends."""

    rows: list["Row"]
    prompts: Prompts
    cut: int
    details: dict[str, Any]


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Ask the questions of each language that the cell is adapted for, and English ones.

    SALT (section 4.3, three examples), CW2V (section 4.6, four). Labels of the prompt are in the
    language of the test; greedy decoding, cut at the first line feed. `f1` and `exact_match` are
    means over questions, from 0 to 100, then over languages (`transfer.metrics_by_language`).

    Writes `outputs["predictions"]`: one JSON object per question. `test` names its language, and
    its `prompt` stands behind the last `shots` of that language's examples in `details`.

    Raises
    ------
    UserError
        There are too few questions, a prompt has no room for a context, or a setting cannot be.
    """
    settings = read_settings(QuestionAnsweringSettings, job)
    if settings.normalization not in ("mlqa", "squad"):
        raise UserError(
            f"config/tasks.yaml: task '{job['task']}': normalization '{settings.normalization}' is "
            "neither mlqa nor squad"
        )
    codes: dict[str, str] = job["tested"]
    questions = {
        name: _questions_of(model, tokenizer, job, settings, name, code)
        for name, code in codes.items()
    }
    rows = predict(
        model,
        tokenizer,
        job,
        [row for one in questions.values() for row in one.rows],
        [text for one in questions.values() for text in one.prompts.texts],
        max_new_tokens=settings.max_new_tokens,
        batch_size=settings.batch_size,
    )
    scores, outputs = {}, iter(rows)
    for name, one in questions.items():
        language = settings.answers_in or codes[name]
        scored = [
            _scored(next(outputs), *parts, name, settings.normalization, language)
            for parts in zip(one.rows, one.prompts.queries, one.prompts.shots, strict=True)
        ]
        scores[name] = {
            metric: sum(row[metric] for row in scored) / len(scored)
            for metric in ("f1", "exact_match")
        }
    write_predictions(rows, job)
    details = {
        "cut_contexts": sum(one.cut for one in questions.values()),
        "tests": {name: one.details for name, one in questions.items()},
    }
    return Measurement(
        metrics_by_language(scores) | token_metrics(rows), details | conditions(rows, model)
    )


TASK = TaskKind(
    QuestionAnsweringSettings,
    evaluate,
    tests="test_sets",
    test_texts={"questions": ("question",), "contexts": ("context",)},
    generates=True,
    every_language=True,
    float32_on=("cpu",),
    prompts="question_answering",
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
    """Questions and prompts of one language."""
    every = read_test_set(job, "tests", name) or []
    examples, tests = examples_and_tests(
        job, every, read_test_set(job, "shots", name), settings.shots, ("question", "context"), name
    )
    tests = draw(tests, settings.samples, job, f"questions {name}")
    before, between, after = question_frame(job["inputs"]["prompts"], code)

    def frame(row: "Row") -> tuple[str, str]:
        return before, f"{between}{row['question']}{after}"

    limit = prompt_limit(model, settings.max_new_tokens, settings.max_prompt_tokens)
    assert limit is not None
    queries = [row["context"].join(frame(row)) for row in tests]
    lengths = [len(ids) for ids in tokenizer(queries, verbose=False)["input_ids"]]
    long = [at for at, length in enumerate(lengths) if length > limit]
    for at in long:
        context = tests[at]["context"]
        try:
            fitting = truncate_article(tokenizer, context, frame(tests[at]), limit)
        except NoRoomError:
            raise UserError(
                f"config/tasks.yaml: task '{job['task']}': a prompt of {limit} tokens has no room "
                f"for question {tests[at]['id']} ({name}); raise max_prompt_tokens, lower "
                "max_new_tokens, or leave the task out: the model may hold no more"
            ) from None
        queries[at] = fitting.join(frame(tests[at]))
    answered = [(row["context"].join(frame(row)), row["answers"][0]) for row in examples]
    prompts = few_shot_prompts(tokenizer, queries, answered, limit)
    rows = [
        {
            "id": f"{name}-{row['id']}",
            "source": row["question"],
            "reference": row["answers"][0],
            "answers": row["answers"],
        }
        for row in tests
    ]
    details = {"drawn_from": len(every), "questions": len(rows)}
    return LanguageQuestions(
        rows, prompts, len(long), details | prompts.details([row["id"] for row in examples])
    )


def _scored(
    row: "Row",
    question: "Row",
    query: str,
    shots: int,
    name: str,
    normalization: str,
    language: str,
) -> "Row":
    """A prediction, completed in place."""
    output, references = row["output"], question["answers"]
    if normalization == "mlqa":
        f1 = mlqa_f1(output, references, language)
        exact = mlqa_exact_match(output, references, language)
    else:
        f1, exact = squad_f1(output, references), squad_exact_match(output, references)
    row |= {
        "test": name,
        "prompt": query,
        "shots": shots,
        "answers": references,
        "f1": f1,
        "exact_match": exact,
    }
    return row
