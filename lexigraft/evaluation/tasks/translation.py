"""Translation between English and the target language, scored by chrF, chrF++ and BLEU."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexigraft.corpus.sample_file import ENGLISH, translation_prompt
from lexigraft.errors import UserError
from lexigraft.evaluation.bleu import bleu
from lexigraft.evaluation.chrf import chrf
from lexigraft.evaluation.few_shot import (
    examples_and_tests,
    few_shot_prompts,
    prompt_limit,
    read_test_set,
)
from lexigraft.evaluation.predictions import conditions, predict, token_metrics, write_predictions
from lexigraft.evaluation.prompts import into_english_prompts, named_prompts, translation_prompts
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.evaluation.texts import draw, translation_pairs

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lexigraft.evaluation.few_shot import Row


@dataclass(frozen=True)
class TranslationSettings:
    """Defaults of Yamaguchi et al. (section 5, published scripts), who use batches of one.

    Attributes
    ----------
    samples
        Pairs of a run; none: all of them.
    max_new_tokens
        Tokens generated at most.
    batch_size
        Sentences generated together.
    prompt
        `instruction`, that of Yamaguchi et al.; `names`, that of VocADT with examples; or `alma`,
        which strategies train on.
    into_english
        Translate from the target language into English.
    shots
        Examples before each sentence, see `few_shot.examples_and_tests`.
    beams
        Candidates of a beam search, as in VocADT's code; 1 is greedy.
    """

    samples: int | None = 500
    max_new_tokens: int = 128
    batch_size: int = 8
    prompt: str = "instruction"
    into_english: bool = False
    shots: int = 0
    beams: int = 1


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Translate a sample of parallel sentences and score it.

    They are the task's own or those of the corpus. An output ends at its first line feed, and an
    empty one scores 0. `chrf`, `chrf_plus_plus` and `bleu` pool the counts of all sentences;
    `chrf_sentence_mean` is the mean over sentences that the code of Yamaguchi et al. reports.

    `new_token_share_output` and `new_token_share_input` are the shares of tokens that the source
    vocabulary does not have, in the translations and in the prompts (Yamaguchi et al., Appendix E).

    Writes `outputs["predictions"]`: one JSON object per sentence; its `prompt` stands behind the
    last `shots` of the examples that `details` lists.

    Raises
    ------
    UserError
        There are no parallel sentences, a prompt is too long for the model even without examples,
        or there is no prompt as the settings query for it.
    """
    settings = read_settings(TranslationSettings, job)
    every = read_test_set(job, "tests") or translation_pairs(job["inputs"]["corpus"])
    if not every:
        raise UserError(
            f"{job['inputs']['corpus']}/tasks/translation.jsonl: no parallel sentences; give the "
            "language a parallel source in config/languages.yaml or take translation out of the "
            "study"
        )
    examples, tests = examples_and_tests(
        job, every, read_test_set(job, "shots"), settings.shots, ("source", "target")
    )
    examples, pairs = (
        [_directed(pair, settings) for pair in rows]
        for rows in (examples, draw(tests, settings.samples, job, "pairs"))
    )
    queries, of_examples = (
        _prompts(settings, job, [pair["source"] for pair in rows]) for rows in (pairs, examples)
    )
    prompts = few_shot_prompts(
        tokenizer,
        queries,
        [(query, pair["reference"]) for query, pair in zip(of_examples, examples, strict=True)],
        prompt_limit(model, settings.max_new_tokens),
    )
    rows = predict(
        model,
        tokenizer,
        job,
        pairs,
        prompts.texts,
        max_new_tokens=settings.max_new_tokens,
        batch_size=settings.batch_size,
        beams=settings.beams,
    )
    metrics, signatures, sentences = _scores(
        rows, "en" if settings.into_english else job["language"]
    )
    for row, query, shots, score in zip(rows, queries, prompts.shots, sentences, strict=True):
        row |= {"prompt": query, "shots": shots, "chrf": score}
    write_predictions(rows, job)
    details = {**signatures, "drawn_from": len(every)}
    details |= prompts.details([pair["id"] for pair in examples])
    return Measurement(metrics | token_metrics(rows), details | conditions(rows, model))


TASK = TaskKind(
    TranslationSettings,
    evaluate,
    tests="corpus",
    test_texts={"": ("target",)},
    generates=True,
    scored_by_learned_metrics=True,
    float32_on=("cpu",),
    prompts="translation",
    language_texts="parallel",
)


def _directed(pair: "Row", settings: TranslationSettings) -> "Row":
    """A pair with what is asked for as its reference."""
    source, target = pair["source"], pair["target"]
    if settings.into_english:
        source, target = target, source
    return {"id": pair["id"], "source": source, "reference": target}


def _scores(
    rows: list["Row"], language: str | None
) -> tuple[dict[str, float | int], dict[str, str], list[float]]:
    """Metrics; how they were computed, by sacrebleu's signatures; and each sentence's chrF."""
    outputs, references = ([row[key] for row in rows] for key in ("output", "reference"))
    plain, words = chrf(outputs, references), chrf(outputs, references, word_order=2)
    by_words = bleu(outputs, references, language)
    metrics = {
        "chrf": plain.corpus,
        "chrf_sentence_mean": sum(plain.sentences) / len(rows),
        "chrf_plus_plus": words.corpus,
        "bleu": by_words.corpus,
    }
    signatures = {
        "signature": plain.signature,
        "chrf_plus_plus_signature": words.signature,
        "bleu_signature": by_words.signature,
    }
    return metrics, signatures, plain.sentences


def _prompts(settings: TranslationSettings, job: dict[str, Any], sentences: list[str]) -> list[str]:
    folder, name = job["inputs"]["prompts"], job["language_name"]
    source, target = (name, ENGLISH) if settings.into_english else (ENGLISH, name)
    if settings.prompt == "alma":
        return [translation_prompt(source, target, sentence) for sentence in sentences]
    if settings.prompt == "names":
        return named_prompts(folder, source, target, sentences)
    if settings.prompt == "instruction":
        if settings.into_english:
            return into_english_prompts(folder, name, sentences)
        return translation_prompts(folder, job["language"], sentences)
    raise UserError(
        f"config/tasks.yaml: task '{job['task']}': prompt is '{settings.prompt}'; it must be "
        "instruction, names or alma"
    )
