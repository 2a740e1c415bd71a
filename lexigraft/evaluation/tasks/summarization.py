"""Summarization in the target language, scored by ROUGE-L."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError
from lexigraft.evaluation.few_shot import examples_and_tests, few_shot_prompts, read_test_set
from lexigraft.evaluation.predictions import conditions, predict, token_metrics, write_predictions
from lexigraft.evaluation.prompts import article_prompts, summarization_frame
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.evaluation.texts import draw, summarization_pairs

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True)
class SummarizationSettings:
    """Defaults of Yamaguchi et al. (section 6.4, Appendix C.2, published evaluation scripts).

    Attributes
    ----------
    samples
        Articles of a run; none: all of them.
    select
        `random`: another sample for each run, as the paper says. `shortest`: the shortest articles,
        the same for every run, as its published code does.
    max_prompt_tokens
        Tokens of a prompt at most; the end of a longer article is left out.
    max_new_tokens
        Tokens generated at most.
    batch_size
        Articles generated together; the paper takes them one by one.
    rouge_tokenizer
        Whose tokens ROUGE-L compares: a hub name or a folder (the paper: google/mt5-base), or none
        for `rouge.ScriptTokenizer`, which needs no download.
    form
        What is asked for: a `summary`, or a `title`, as CW2V tests XL-Sum.
    shots
        Examples before each article, see `few_shot.examples_and_tests`.
    """

    samples: int | None = 500
    select: str = "random"
    max_prompt_tokens: int = 4096
    max_new_tokens: int = 128
    batch_size: int = 8
    rouge_tokenizer: str | None = None
    form: str = "summary"
    shots: int = 0


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Summarize a sample of articles and score it.

    They are the task's own or those of the corpus. The prompt is the target-language template of
    Yamaguchi et al. (Table 8), with the article cut to fit (`prompts.article_prompts`) and as many
    examples before it as still fit; greedy decoding, cut at the first line feed. `rouge_l` is the
    mean over articles of the F-measure on the scale 0 to 100; an empty summary scores 0.
    `new_token_share_output` and `new_token_share_input` are as in translation.

    Writes `outputs["predictions"]`: one JSON object per article, which has the article as it stood
    in the prompt. `details` says how many articles were cut, and to how many tokens, what stands
    around an article in every prompt, and which examples stand before it.

    Raises
    ------
    UserError
        There are no articles, a prompt has no room for one, or a setting cannot be.
    """
    from lexigraft.evaluation.rouge import rouge_l, rouge_tokenizer

    settings = read_settings(SummarizationSettings, job)
    _check(settings, job["task"])
    scorer = rouge_tokenizer(settings.rouge_tokenizer)
    corpus = job["inputs"]["corpus"]
    every = read_test_set(job, "tests") or summarization_pairs(corpus)
    if not every:
        raise UserError(
            f"{corpus}/tasks/summarization.jsonl: no articles; give the language a summarization "
            "source in config/languages.yaml or take summarization out of the study"
        )
    examples, tests = examples_and_tests(
        job, every, read_test_set(job, "shots"), settings.shots, ("source", "reference")
    )
    pairs = _select(tests, settings, job)
    queries = article_prompts(
        model,
        tokenizer,
        job,
        [pair["source"] for pair in pairs],
        max_prompt_tokens=settings.max_prompt_tokens,
        max_new_tokens=settings.max_new_tokens,
        form=settings.form,
    )
    frame = summarization_frame(job["inputs"]["prompts"], job["language"], settings.form)
    answered = [(pair["source"].join(frame), pair["reference"]) for pair in examples]
    prompts = few_shot_prompts(tokenizer, queries.texts, answered, queries.limit)
    rows = predict(
        model,
        tokenizer,
        job,
        [pair | {"source": text} for pair, text in zip(pairs, queries.articles, strict=True)],
        prompts.texts,
        max_new_tokens=settings.max_new_tokens,
        batch_size=settings.batch_size,
    )
    outputs, references = ([row[key] for row in rows] for key in ("output", "reference"))
    scores = rouge_l(outputs, references, scorer)
    for row, shots, score in zip(rows, prompts.shots, scores, strict=True):
        row |= {"shots": shots, "rouge_l": score}
    write_predictions(rows, job)
    details = {
        "signature": f"ROUGE-L F1 of rouge-score, tokens: {scorer.name}",
        "drawn_from": len(every),
        "cut_articles": queries.cut,
        "prompt_limit": queries.limit,
        "around_article": frame,
        **prompts.details([pair["id"] for pair in examples]),
    }
    return Measurement(
        {"rouge_l": sum(scores) / len(scores), **token_metrics(rows)},
        details | conditions(rows, model),
    )


TASK = TaskKind(
    SummarizationSettings,
    evaluate,
    tests="corpus",
    test_texts={"": ("reference",)},
    generates=True,
    scored_by_learned_metrics=True,
    float32_on=("cpu",),
    prompts="summarization",
    language_texts="summarization",
)


def _select(
    pairs: list[dict[str, str]], settings: SummarizationSettings, job: dict[str, Any]
) -> list[dict[str, str]]:
    if settings.select == "random":
        return draw(pairs, settings.samples, job, "articles")
    return sorted(pairs, key=lambda pair: len(pair["source"]))[: settings.samples]


def _check(settings: SummarizationSettings, task: str) -> None:
    where = f"config/tasks.yaml: task '{task}'"
    if settings.select not in ("random", "shortest"):
        raise UserError(f"{where}: select '{settings.select}' is neither random nor shortest")
    if settings.form not in ("summary", "title"):
        raise UserError(f"{where}: form '{settings.form}' is neither summary nor title")
