"""Summarization in the target language, scored by ROUGE-L."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from lexigraft.errors import UserError
from lexigraft.evaluation import prompts
from lexigraft.evaluation.predictions import measure_predictions, predict
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.evaluation.text_metrics import rouge_l, rouge_tokenizer
from lexigraft.evaluation.texts import draw, task_rows
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
    # `text_metrics.ScriptTokenizer`, which needs no download.
    rouge_tokenizer: str | None = None
    rouge_revision: str | None = None  # a commit, tag or branch of a hub name
    # `instruction`, the prompt of Yamaguchi et al., or an entry of `named` in
    # config/prompts/summarization.yaml.
    prompt: str = prompts.INSTRUCTION
    # Examples before each article, with `select: first` the first ones; see
    # `prompts.examples_and_tests`.
    shots: int = Field(0, ge=0)


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Summarize a sample of articles and score the summaries.

    The articles are the task's own or those of the corpus. The prompt is by default the
    target-language template of Yamaguchi et al. (Table 8), with the article truncated to fit
    (`prompts.article_prompts`) and as many examples before it as still fit; decoding is greedy and
    stops at the first line feed. `rouge_l` is the mean over articles of the F-measure, 0 to 100; an
    empty summary scores 0. `new_token_share_output` and `new_token_share_input` are as in
    translation.

    Writes `outputs["predictions"]`: one JSON object per article, with the article as in the prompt.
    `details` has the number of truncated articles, the token limit, the text around the article in
    every prompt, and the examples before it. Raises `UserError` if there are no articles, a prompt
    has no room for one, or a setting is invalid.
    """
    settings = read_settings(SummarizationSettings, job)
    scorer = rouge_tokenizer(settings.rouge_tokenizer, settings.rouge_revision)
    corpus = job["inputs"]["corpus"]
    every = prompts.read_test_set(job, "tests") or task_rows(corpus, "summarization")
    if not every:
        raise UserError(
            f"{corpus}/tasks/summarization.jsonl: no articles; give the language a summarization "
            "source in config/languages.yaml or remove summarization from the study"
        )
    examples, tests = prompts.examples_and_tests(
        job, every, settings.shots, ("source", "reference"), first=settings.select == "first"
    )
    if settings.select == "random":
        tests = draw(tests, settings.samples, job, "articles")
    else:
        if settings.select == "shortest":
            tests = sorted(tests, key=lambda pair: len(pair["source"]))
        tests = tests[: settings.samples]
    queries = prompts.article_prompts(
        model,
        tokenizer,
        job,
        [pair["source"] for pair in tests],
        max_prompt_tokens=settings.max_prompt_tokens,
        max_new_tokens=settings.max_new_tokens,
        prompt=settings.prompt,
    )
    answered = [(pair["source"].join(queries.frame), pair["reference"]) for pair in examples]
    prompted = prompts.few_shot_prompts(
        tokenizer,
        queries.texts,
        answered,
        queries.limit,
        queries.before,
        prompts.between_examples(job["inputs"]["prompts"], "summarization", settings.prompt),
    )
    rows = predict(
        model,
        tokenizer,
        job,
        [pair | {"source": text} for pair, text in zip(tests, queries.articles, strict=True)],
        prompted.texts,
        max_new_tokens=settings.max_new_tokens,
        batch_size=settings.batch_size,
    )
    outputs, references = ([row[key] for row in rows] for key in ("output", "reference"))
    scores = rouge_l(outputs, references, scorer)
    for row, shots, score in zip(rows, prompted.shots, scores, strict=True):
        row |= {"shots": shots, "rouge_l": score}
    details = {
        "signature": f"ROUGE-L F1 of rouge-score, tokens: {scorer.name}",
        "drawn_from": len(every),
        "cut_articles": queries.cut,
        "prompt_limit": queries.limit,
        "around_article": queries.frame,
        **prompted.details([pair["id"] for pair in examples]),
    }
    metrics = {"rouge_l": sum(scores) / len(scores)}
    return measure_predictions(rows, model, job, metrics, details)


TASK = TaskKind(
    SummarizationSettings,
    evaluate,
    tests="corpus",
    test_texts={"": ("reference",)},
    generates=True,
    scored_by_learned_metrics=True,
    prompts="summarization",
    own_prompts=(prompts.INSTRUCTION,),
    language_texts="summarization",
)
