"""Zero-shot translation between English and the target language, scored by chrF."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexigraft.corpus.alma import ENGLISH, translation_prompt
from lexigraft.errors import UserError
from lexigraft.evaluation.chrf import chrf
from lexigraft.evaluation.measurement import Measurement
from lexigraft.evaluation.predictions import conditions, keep, predict, token_metrics
from lexigraft.evaluation.prompts import translation_prompts
from lexigraft.evaluation.settings import read_settings
from lexigraft.evaluation.texts import draw, translation_pairs

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True)
class Settings:
    """Defaults of paper 000 (§5 and its published evaluation scripts); it uses batches of one.

    `prompt` is `instruction`, that of paper 000, or `alma`, which strategies train on; `alma` may
    also ask for a translation `into_english`.
    """

    samples: int | None = 500
    max_new_tokens: int = 128
    batch_size: int = 8
    prompt: str = "instruction"
    into_english: bool = False


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Translate a sample of the corpus's parallel sentences and score it.

    The prompt is the target-language instruction of paper 000 (Table 8), the sentence and " =", or
    that of `corpus.alma`; greedy decoding, cut at the first line feed. An empty translation scores
    0. `chrf` pools the counts of all sentences; `chrf_sentence_mean` is the mean over sentences
    that the paper's code reports.

    `new_token_share_output` and `new_token_share_input` are the shares of tokens that the source
    vocabulary does not have, in the translations and in the prompts (paper 000, Appendix E).

    Writes `outputs["predictions"]`: one JSON object per sentence.

    Raises
    ------
    UserError
        The corpus has no parallel sentences, a prompt is too long for the model, or there is no
        prompt as the settings ask for it.
    """
    settings = read_settings(Settings, job)
    inputs = job["inputs"]
    every = translation_pairs(inputs["corpus"])
    pairs = draw(every, settings.samples, job, "pairs")
    if not pairs:
        raise UserError(
            f"{inputs['corpus']}/tasks/translation.jsonl: no parallel sentences; give the language "
            "a parallel source in config/languages.yaml or take translation out of the study"
        )
    if settings.into_english:
        pairs = [{**pair, "source": pair["target"], "target": pair["source"]} for pair in pairs]
    prompts = _prompts(settings, job, [pair["source"] for pair in pairs])
    rows = predict(
        model,
        tokenizer,
        job,
        [{**pair, "reference": pair["target"]} for pair in pairs],
        prompts,
        max_new_tokens=settings.max_new_tokens,
        batch_size=settings.batch_size,
    )
    scores = chrf([row["output"] for row in rows], [row["reference"] for row in rows])
    for row, prompt, score in zip(rows, prompts, scores.sentences, strict=True):
        row |= {"prompt": prompt, "chrf": score}
    keep(rows, job)
    metrics = {
        "chrf": scores.corpus,
        "chrf_sentence_mean": sum(scores.sentences) / len(rows),
        **token_metrics(rows),
    }
    details = {"signature": scores.signature, "drawn_from": len(every)}
    return Measurement(metrics, details | conditions(rows, model))


def _prompts(settings: Settings, job: dict[str, Any], sentences: list[str]) -> list[str]:
    if settings.prompt == "alma":
        source, target = ENGLISH, job["language_name"]
        if settings.into_english:
            source, target = target, source
        return [translation_prompt(source, target, sentence) for sentence in sentences]
    if settings.prompt != "instruction" or settings.into_english:
        raise UserError(
            f"config/tasks.yaml: task '{job['task']}': prompt is '{settings.prompt}'; it must be "
            "instruction or alma, and alma where into_english is true"
        )
    return translation_prompts(job["inputs"]["prompts"], job["language"], sentences)
