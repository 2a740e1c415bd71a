"""Translation between English and the target language, scored with chrF, chrF++ and BLEU."""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from lexigraft.errors import UserError
from lexigraft.evaluation.costs import TaskSizes, Work, generation, prompts_of_runs
from lexigraft.evaluation.metric_kinds import TextMetrics, score_texts, scorers_of
from lexigraft.evaluation.task_kinds import TRANSLATIONS, Measurement, TaskKind, read_settings
from lexigraft.settings import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


class TranslationSettings(Settings):
    """Defaults of Yamaguchi et al. (section 5, published scripts), who use batches of one."""

    samples: int | None = Field(500, ge=1)  # pairs per run; none: all of them
    max_new_tokens: int = Field(128, ge=1)
    batch_size: int | None = Field(None, ge=1)  # maximum at a time; none: as many as fit
    # `instruction`, the prompt of Yamaguchi et al.; `alma`, which strategies train on; or an entry
    # of `named` in config/prompts/translation.yaml, such as `names`, VocADT's prompt with examples.
    prompt: str = "instruction"
    into_english: bool = False  # translate from the target language into English
    shots: int = Field(0, ge=0)  # examples before each sentence, see `few_shot.examples_and_tests`
    beams: int = Field(1, ge=1)  # candidates of a beam search, as in VocADT's code; 1 is greedy
    # Files of lexigraft/evaluation/metrics.
    metrics: TextMetrics = Field(["chrf", "chrf_plus_plus", "bleu"])


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Translate a sample of parallel sentences and score the translations.

    The sentences are the task's own or those of the corpus. An output ends at its first line feed,
    and an empty one scores 0. `chrf`, `chrf_plus_plus` and `bleu` pool the counts of all sentences;
    `chrf_sentence_mean` is the mean over sentences that the code of Yamaguchi et al. reports.

    `new_token_share_output` and `new_token_share_input` are the shares of tokens that the source
    vocabulary does not have, in the translations and in the prompts (Yamaguchi et al., Appendix E).

    Writes `outputs["predictions"]`: one JSON object per sentence; its `prompt` followed the last
    `shots` of the examples in `details`. Raises `UserError` if there are no parallel sentences, a
    prompt is too long for the model even without examples, or the prompt in the settings does not
    exist.
    """
    from lexigraft.evaluation.few_shot import (
        examples_and_tests,
        few_shot_prompts,
        prompt_limit,
        read_test_set,
    )
    from lexigraft.evaluation.predictions import measure_predictions, predict
    from lexigraft.evaluation.prompts import between_examples, translation_queries
    from lexigraft.evaluation.texts import draw, task_rows

    settings = read_settings(TranslationSettings, job)
    into = "en" if settings.into_english else job["language"]
    scorers = scorers_of(settings, into)
    corpus = job["inputs"]["corpus"]
    pairs = read_test_set(job, "tests") or task_rows(corpus, TRANSLATIONS)
    if not pairs:
        raise UserError(
            f"{corpus}/tasks/translation.jsonl: no parallel sentences; give the language a "
            "parallel source in config/languages.yaml or remove translation from the study"
        )
    examples, tests = examples_and_tests(job, pairs, settings.shots, ("source", "target"))
    tests = draw(tests, settings.samples, job, "pairs")
    source, target = ("target", "source") if settings.into_english else ("source", "target")
    before, queries = translation_queries(
        job,
        settings.prompt,
        [pair[source] for pair in tests],
        into_english=settings.into_english,
    )
    _, example_queries = translation_queries(
        job,
        settings.prompt,
        [pair[source] for pair in examples],
        into_english=settings.into_english,
    )
    prompted = few_shot_prompts(
        tokenizer,
        queries,
        [(query, pair[target]) for query, pair in zip(example_queries, examples, strict=True)],
        prompt_limit(model, settings.max_new_tokens),
        before,
        between_examples(job["inputs"]["prompts"], "translation", settings.prompt),
    )
    rows = predict(
        model,
        tokenizer,
        job,
        [{"id": pair["id"], "source": pair[source], "reference": pair[target]} for pair in tests],
        prompted.texts,
        max_new_tokens=settings.max_new_tokens,
        batch_size=settings.batch_size,
        beams=settings.beams,
    )
    for row, query, shots in zip(rows, queries, prompted.shots, strict=True):
        row |= {"prompt": query, "shots": shots}
    metrics, signatures = score_texts(scorers, rows)
    details = {
        **signatures,
        "drawn_from": len(pairs),
        **prompted.details([pair["id"] for pair in examples]),
    }
    return measure_predictions(rows, model, job, metrics, details)


def prompt_tokens(sizes: TaskSizes, blocks: int = 1) -> float:
    """Tokens of a prompt: its examples and its sentence, each with a translation."""
    return blocks * (sizes.english_sentence + sizes.sentence) + 50


def _cost(settings: TranslationSettings, sizes: TaskSizes) -> Work:
    prompts = prompts_of_runs(sizes, settings.samples)
    length = prompt_tokens(sizes, settings.shots + 1)
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
    shows_outputs=True,
    scored_by_learned_metrics=True,
    prompts="translation",
    own_prompts=("instruction", "alma"),
)
