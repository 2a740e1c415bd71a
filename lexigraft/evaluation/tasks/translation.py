"""Translation between English and the target language, scored with chrF, chrF++ and BLEU."""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from lexigraft.corpus.sample_file import ENGLISH, translation_prompt
from lexigraft.errors import UserError
from lexigraft.evaluation import prompts
from lexigraft.evaluation.predictions import measure_predictions, predict
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.evaluation.text_metrics import bleu, chrf
from lexigraft.evaluation.texts import draw, task_rows
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
    shots: int = Field(0, ge=0)  # examples before each sentence, see `prompts.examples_and_tests`
    beams: int = Field(1, ge=1)  # candidates of a beam search, as in VocADT's code; 1 is greedy


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
    settings = read_settings(TranslationSettings, job)
    corpus = job["inputs"]["corpus"]
    every = prompts.read_test_set(job, "tests") or task_rows(corpus, "translation")
    if not every:
        raise UserError(
            f"{corpus}/tasks/translation.jsonl: no parallel sentences; give the language a "
            "parallel source in config/languages.yaml or remove translation from the study"
        )
    examples, tests = prompts.examples_and_tests(job, every, settings.shots, ("source", "target"))
    tests = draw(tests, settings.samples, job, "pairs")
    source, target = ("target", "source") if settings.into_english else ("source", "target")
    (before, queries), (_, example_queries) = (
        _queries(settings, job, [pair[source] for pair in rows]) for rows in (tests, examples)
    )
    prompted = prompts.few_shot_prompts(
        tokenizer,
        queries,
        [(query, pair[target]) for query, pair in zip(example_queries, examples, strict=True)],
        prompts.prompt_limit(model, settings.max_new_tokens),
        before,
        prompts.between_examples(job["inputs"]["prompts"], "translation", settings.prompt),
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
    outputs, references = ([row[key] for row in rows] for key in ("output", "reference"))
    characters, with_words = chrf(outputs, references), chrf(outputs, references, word_order=2)
    tokens = bleu(outputs, references, "en" if settings.into_english else job["language"])
    parts = zip(rows, queries, prompted.shots, characters.sentences, strict=True)
    for row, query, shots, score in parts:
        row |= {"prompt": query, "shots": shots, "chrf": score}
    metrics = {
        "chrf": characters.corpus,
        "chrf_sentence_mean": sum(characters.sentences) / len(rows),
        "chrf_plus_plus": with_words.corpus,
        "bleu": tokens.corpus,
    }
    details = {
        "signature": characters.signature,
        "chrf_plus_plus_signature": with_words.signature,
        "bleu_signature": tokens.signature,
        "drawn_from": len(every),
        **prompted.details([pair["id"] for pair in examples]),
    }
    return measure_predictions(rows, model, job, metrics, details)


TASK = TaskKind(
    TranslationSettings,
    evaluate,
    tests="corpus",
    test_texts={"": ("target",)},
    generates=True,
    scored_by_learned_metrics=True,
    prompts="translation",
    own_prompts=(prompts.INSTRUCTION, "alma"),
    language_texts="parallel",
)


def _queries(
    settings: TranslationSettings, job: dict[str, Any], sentences: list[str]
) -> tuple[str, list[str]]:
    """The text before all examples, and one prompt per sentence."""
    files, name = job["inputs"]["prompts"], job["language_name"]
    source, target = (name, ENGLISH) if settings.into_english else (ENGLISH, name)
    if settings.prompt == "alma":
        return "", [translation_prompt(source, target, sentence) for sentence in sentences]
    if settings.prompt == prompts.INSTRUCTION:
        if settings.into_english:
            return "", prompts.into_english_prompts(files, name, sentences)
        return "", prompts.translation_prompts(files, job["language"], sentences)
    return prompts.named_translation_prompts(files, settings.prompt, source, target, sentences)
