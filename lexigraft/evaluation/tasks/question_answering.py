"""Generative question answering about a text, by causal models: exact match and F1."""

from typing import Any, Literal

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
from lexigraft.evaluation.prompts import few_shot_prompts, fit_texts, question_frame
from lexigraft.evaluation.task_kinds import (
    Measurement,
    TaskKind,
    means,
    metrics_by_language,
    read_settings,
)
from lexigraft.evaluation.texts import draw, examples_and_tests, read_test_set
from lexigraft.settings import Settings


class QuestionAnsweringSettings(Settings):
    """How questions are asked; config/tasks.yaml explains the keys."""

    samples: int | None = Field(None, ge=1)
    shots: int = Field(0, ge=0)
    max_prompt_tokens: int = Field(4096, ge=1)
    max_new_tokens: int = Field(32, ge=1)
    batch_size: int | None = Field(None, ge=1)
    prompt: str = "labels"
    normalization: Literal["mlqa", "squad"] = "mlqa"
    answers_in: str | None = None
    questions_in: str | None = None


def evaluate(model: Any, tokenizer: Any, job: dict[str, Any]) -> Measurement:
    """Ask the questions of each language that the cell is adapted to, and English ones.

    SALT (section 4.3, three examples), CW2V (section 4.6, four). `f1` and `exact_match` are means
    over questions, from 0 to 100, then over languages (`task_kinds.metrics_by_language`). For the
    written predictions, see `predictions.predict_and_score`; the model reads the last `shots` of
    the examples of the row's `test` in `details`, then `prompt`. Raises `UserError` if there are
    too few questions, or a prompt has no room for a context.
    """
    from lexigraft.evaluation.predictions import predict_and_score

    settings = read_settings(QuestionAnsweringSettings, job)
    rows: list[dict[str, Any]] = []
    texts: list[str] = []
    tests: dict[str, dict[str, Any]] = {}
    n_truncated = 0
    for test, code in job["tested"].items():
        frame = question_frame(job, settings.questions_in or code, settings.prompt)
        questions = read_test_set(job, "tests", test) or []
        keys = ("question", "context")
        examples, drawn = examples_and_tests(job, questions, settings.shots, keys, test)
        drawn = draw(drawn, settings.samples, job, f"questions {test}")
        unlimited = [
            (f"question {row['id']} ({test})", row["context"], frame.around(row["question"]))
            for row in drawn
        ]
        contexts, limit = fit_texts(model, tokenizer, job, settings, unlimited)
        pairs = list(zip(contexts, drawn, strict=True))
        n_truncated += sum(context != row["context"] for context, row in pairs)
        queries = [frame.fill(context, row["question"]) for context, row in pairs]
        answered = [
            (row["id"], frame.fill(row["context"], row["question"]), row["answers"][0])
            for row in examples
        ]
        prompts = few_shot_prompts(tokenizer, frame, queries, answered, limit)
        texts += prompts.texts
        rows += [
            {
                "id": f"{test}-{row['id']}",
                "source": row["question"],
                "reference": row["answers"][0],
                "test": test,
                "prompt": query,
                "shots": shots,
                "answers": row["answers"],
            }
            for row, query, shots in zip(drawn, queries, prompts.shots, strict=True)
        ]
        tests[test] = {"drawn_from": len(questions), "questions": len(drawn), **prompts.details}

    def score(rows: list[dict[str, Any]]) -> tuple[dict[str, float], dict[str, Any]]:
        for row in rows:
            if settings.normalization == "squad":
                row |= squad_scores(row["output"], row["answers"])
            else:
                language = settings.answers_in or job["tested"][row["test"]]
                row |= mlqa_scores(row["output"], row["answers"], language)
        scores = {
            test: means([row for row in rows if row["test"] == test], "f1", "exact_match")
            for test in tests
        }
        return metrics_by_language(scores), {"cut_contexts": n_truncated, "tests": tests}

    return predict_and_score(model, tokenizer, job, settings, rows, texts, score)


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
    prompts="question_answering",
    built_in_prompts=("labels",),
)
