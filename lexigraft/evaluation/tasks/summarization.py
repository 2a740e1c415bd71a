"""Summarization in the target language, scored by ROUGE-L."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from lexigraft.evaluation.costs import ARTICLE, TaskSizes, Work, generation, prompts_of_runs
from lexigraft.evaluation.metric_kinds import TextMetrics, scorers_of
from lexigraft.evaluation.task_kinds import ARTICLES, Measurement, TaskKind, read_settings
from lexigraft.settings import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


class SummarizationSettings(Settings):
    """Defaults of Yamaguchi et al. (section 6.4, Appendix C.2, published evaluation scripts)."""

    samples: int | None = Field(500, ge=1)  # articles per run; none: all of them
    # `random`: a new sample for each run, as the paper says. The same articles in every run:
    # `shortest`, as in its published code, or `first`, as in CW2V's.
    select: Literal["random", "shortest", "first"] = "random"
    max_prompt_tokens: int = Field(4096, ge=1)  # longer articles are truncated
    max_new_tokens: int = Field(128, ge=1)
    # Maximum at a time; none: as many as fit. The paper processes articles one by one.
    batch_size: int | None = Field(None, ge=1)
    # The tokenizer for ROUGE-L: a hub name or a folder (the paper: google/mt5-base), or none for
    # `metrics.rouge_l.ScriptTokenizer`, which needs no download.
    rouge_tokenizer: str | None = None
    rouge_revision: str | None = None  # a commit, tag or branch of a hub name
    # `instruction`, the prompt of Yamaguchi et al., or an entry of `named` in
    # config/prompts/summarization.yaml.
    prompt: str = "instruction"
    # Examples before each article, with `select: first` the first ones; see
    # `few_shot.examples_and_tests`.
    shots: int = Field(0, ge=0)
    metrics: TextMetrics = Field(["rouge_l"])  # files of lexigraft/evaluation/metrics


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Summarize a sample of articles and score the summaries.

    The articles are the task's own or those of the corpus. The prompt is by default the
    target-language template of Yamaguchi et al. (Table 8), with the article truncated to fit
    (`few_shot.article_prompts`) and as many examples before it as still fit; decoding is greedy and
    stops at the first line feed. `rouge_l` is the mean over articles of the F-measure, 0 to 100; an
    empty summary scores 0. `new_token_share_output` and `new_token_share_input` are as in
    translation.

    Writes `outputs["predictions"]`: one JSON object per article, with the article as in the prompt.
    `details` has the number of truncated articles, the token limit, the text around the article in
    every prompt, and the examples before it. Raises `UserError` if there are no articles, a prompt
    has no room for one, or a setting is invalid.
    """
    from lexigraft.evaluation.few_shot import (
        article_prompts,
        examples_and_tests,
        few_shot_prompts,
        read_own_or_corpus_tests,
    )
    from lexigraft.evaluation.predictions import predict_and_score
    from lexigraft.evaluation.prompts import between_examples
    from lexigraft.evaluation.texts import draw

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
    queries = article_prompts(
        model,
        tokenizer,
        job,
        [pair["source"] for pair in tests],
        max_prompt_tokens=settings.max_prompt_tokens,
        max_new_tokens=settings.max_new_tokens,
        prompt=settings.prompt,
    )
    prompts = few_shot_prompts(
        tokenizer,
        queries.texts,
        [(pair["source"].join(queries.frame), pair["reference"]) for pair in examples],
        queries.limit,
        queries.prompt_start,
        between_examples(job["inputs"]["prompts"], "summarization", settings.prompt),
    )
    rows = [
        {"id": pair["id"], "source": text, "reference": pair["reference"], "shots": shots}
        for pair, text, shots in zip(tests, queries.articles, prompts.shots, strict=True)
    ]
    details = {
        "drawn_from": len(pairs),
        "cut_articles": queries.truncated,
        "prompt_limit": queries.limit,
        "around_article": queries.frame,
        **prompts.details([pair["id"] for pair in examples]),
    }
    return predict_and_score(
        model,
        tokenizer,
        job,
        rows,
        prompts.texts,
        scorers,
        details,
        max_new_tokens=settings.max_new_tokens,
        batch_size=settings.batch_size,
    )


def prompt_tokens(sizes: TaskSizes, max_prompt_tokens: int, n_examples: int = 0) -> float:
    """Tokens of a prompt: its examples and its article."""
    return min((n_examples + 1) * ARTICLE * sizes.sentence, max_prompt_tokens)


def _cost(settings: SummarizationSettings, sizes: TaskSizes) -> Work:
    prompts = prompts_of_runs(sizes, settings.samples)
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
    shows_outputs=True,
    scored_by_learned_metrics=True,
    prompts="summarization",
    built_in_prompts=("instruction",),
)
