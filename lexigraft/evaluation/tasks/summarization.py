"""Summarization in the target language, scored by ROUGE-L."""

import operator
from functools import partial
from typing import Any, Literal

from pydantic import Field

from lexigraft.evaluation.costs import ARTICLE, TaskSizes, Work, generation, prompts_of_runs
from lexigraft.evaluation.metric_kinds import TextMetrics, score_texts, scorers_of
from lexigraft.evaluation.prompts import few_shot_prompts, fit_texts, summarization_frame
from lexigraft.evaluation.task_kinds import ARTICLES, Measurement, TaskKind, read_settings
from lexigraft.evaluation.texts import draw, examples_and_tests, read_own_or_corpus_tests
from lexigraft.settings import Settings


class SummarizationSettings(Settings):
    """Defaults of Yamaguchi et al. (section 6.4, Appendix C.2, published evaluation scripts).

    config/tasks.yaml explains the keys.
    """

    samples: int | None = Field(500, ge=1)
    redraw: bool = True
    # The paper says `random`; its published code takes the `shortest`, CW2V's the `first`.
    select: Literal["random", "shortest", "first"] = "random"
    max_prompt_tokens: int = Field(4096, ge=1)
    beyond_context: bool = False
    max_new_tokens: int = Field(128, ge=1)
    batch_size: int | None = Field(None, ge=1)
    rouge_tokenizer: str | None = None
    rouge_revision: str | None = None
    prompt: str = "instruction"
    shots: int = Field(0, ge=0)
    metrics: TextMetrics = Field(["rouge_l"])


def evaluate(model: Any, tokenizer: Any, job: dict[str, Any]) -> Measurement:
    """Summarize a sample of articles, the task's own or the corpus's, and score the summaries.

    Each article is truncated to fit, and has as many examples before it as still fit. An output
    ends at its first line feed, and an empty one scores 0. The `source` of a prediction is the
    article as in its prompt (see `predictions.predict_and_score`). Raises `UserError` if there are
    no articles, or a prompt has no room for one.
    """
    from lexigraft.evaluation.predictions import predict_and_score

    settings = read_settings(SummarizationSettings, job)
    scorers = scorers_of(settings, job["language"])
    pairs = read_own_or_corpus_tests(job, ARTICLES)
    examples, tests = examples_and_tests(
        job, pairs, settings.shots, ("source", "reference"), first=settings.select == "first"
    )
    if settings.select == "random":
        tests = draw(tests, settings.samples, job, "articles")
    else:
        if settings.select == "shortest":
            tests = sorted(tests, key=lambda pair: len(pair["source"]))
        tests = tests[: settings.samples]
    frame = summarization_frame(job, settings.prompt)
    sources = [pair["source"] for pair in tests]
    texts = [("an article", text, frame.around()) for text in sources]
    articles, limit = fit_texts(model, tokenizer, job, settings, texts)
    queries = [frame.fill(article) for article in articles]
    answered = [(pair["id"], frame.fill(pair["source"]), pair["reference"]) for pair in examples]
    prompts = few_shot_prompts(tokenizer, frame, queries, answered, limit)
    rows = [
        {"id": pair["id"], "source": article, "reference": pair["reference"], "shots": shots}
        for pair, article, shots in zip(tests, articles, prompts.shots, strict=True)
    ]
    details = {
        "drawn_from": len(pairs),
        "cut_articles": sum(map(operator.ne, sources, articles)),
        "prompt_limit": limit,
        "around_article": frame.parts,
        **prompts.details,
    }
    score = partial(score_texts, scorers, details=details)
    return predict_and_score(model, tokenizer, job, settings, rows, prompts.texts, score)


def prompt_tokens(sizes: TaskSizes, max_prompt_tokens: int, n_examples: int = 0) -> float:
    """Tokens of a prompt: its examples and its article."""
    return min((n_examples + 1) * ARTICLE * sizes.sentence, max_prompt_tokens)


def _cost(settings: SummarizationSettings, sizes: TaskSizes) -> Work:
    prompts = prompts_of_runs(sizes, settings.samples, settings.redraw)
    length = prompt_tokens(sizes, settings.max_prompt_tokens, settings.shots)
    return generation(prompts, length, settings.max_new_tokens)


TASK = TaskKind(
    SummarizationSettings,
    evaluate,
    tests="corpus",
    cost=_cost,
    primary_metric="rouge_l",
    title="SUM",
    corpus_tests=ARTICLES,
    test_texts={"": ("reference",)},
    rows="articles",
    generates=True,
    prompts="summarization",
    built_in_prompts=("instruction",),
)
