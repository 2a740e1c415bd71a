"""Generation speed of a cell: tokens, characters and bytes per second, also on the same text."""

import time
from itertools import cycle, islice
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from lexigraft.artifacts.atomic import write_jsonl
from lexigraft.corpus.lines import corpus_sentences
from lexigraft.errors import UserError
from lexigraft.evaluation.prompts import article_prompts, translation_prompts
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.evaluation.texts import group_rows, task_rows
from lexigraft.inference.generation import continue_greedily, decode, end_tokens, padding_token
from lexigraft.inference.text_encoding import encode, tokenize
from lexigraft.settings import KeyedError, Settings

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

# Sentences, characters and bytes of a text that is the same for every cell, and its tokens in this
# cell's vocabulary, i.e. the decoding steps to generate it.
Lengths = dict[str, int]


class SpeedSettings(Settings):
    """How much is generated, and how often."""

    # The task whose prompts are continued.
    prompts_from: Literal["translation", "summarization"] = "translation"
    # For summarization; longer articles are truncated at the end.
    max_prompt_tokens: int = Field(4096, ge=1)
    # Numbers of prompts that are continued together; one set of metrics for each.
    batch_sizes: list[Annotated[int, Field(ge=1)]] = Field([1, 16], min_length=1)
    prompts: int = Field(16, ge=1)  # in one repeat, a multiple of every batch size
    new_tokens: int = Field(32, ge=2)  # generated after each prompt, exactly
    warmup: int = Field(1, ge=0)  # untimed batches before the first repeat of a batch size
    # Timed passes over all prompts; the metrics are medians over them.
    repeats: int = Field(5, ge=1)

    @model_validator(mode="after")
    def _has_whole_batches(self) -> "SpeedSettings":
        for size in self.batch_sizes:
            if self.prompts % size:
                why = f"{self.prompts} is not a multiple of batch size {size}"
                raise KeyedError("prompts", why)
        return self


class Pass(NamedTuple):
    """One timed pass over all prompts: seconds up to the first tokens, seconds after, texts."""

    reading: float
    decoding: float
    texts: list[str]


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Time greedy generation on fixed prompts, the same texts for every cell.

    Tokens per second alone reward a bad tokenizer. A tokenizer that splits words into bytes makes
    the model emit five times as many tokens for the same sentence: the rate per token stays the
    same, but the reader waits five times as long. So these are reported as well, for each batch
    size B:

    - `characters_per_second_batch_B` and `bytes_per_second_batch_B`, for the generated text. They
      depend on the text that the cell happens to generate; the replacement character, which
      represents invalid bytes, is not counted.
    - `same_text_characters_per_second_batch_B` and `same_text_bytes_per_second_batch_B`, which do
      not: the held-out text over the time to generate it, i.e. the decoding steps that this
      vocabulary needs for it times the measured time of a step (without reading the prompt). This
      is the figure to compare vocabularies by; it includes the cost of a larger output matrix.
      `benchmarks/generation.py` forces models to generate such text and compares the times.
    - `first_token_seconds_batch_B`, the time to read a batch of prompts.
    - `spread_batch_B`, the variation of the repeats: longest minus shortest, over the median.

    `steps_per_sentence` is the mean number of decoding steps of a held-out sentence.

    The prompts are the corpus's first translation prompts or, without parallel text, its first
    held-out sentences to be continued; or its first articles to be summarized, truncated to fit. If
    there are fewer than `prompts`, they are repeated. Tokens that end a text are suppressed, so
    that every cell generates the same number. `details` holds the conditions, every repeat's
    seconds and the texts. Yamaguchi et al. (section 6.5) report tokens per second.

    Writes `outputs["predictions"]`: one JSON object per held-out sentence with the `characters`,
    `bytes` and `tokens` from which the figures on the same text are computed; for more than a
    thousand `sentences`, sums over a thousand groups. Raises `UserError` if settings are
    inconsistent, or the corpus has no held-out text or no prompts.
    """
    import torch

    settings = read_settings(SpeedSettings, job)
    corpus = job["inputs"]["corpus"]
    heldout = corpus_sentences(corpus, "heldout")
    if not heldout:
        raise UserError(f"{corpus}/heldout.txt: empty; give the language more text")
    prompts = _prompts(model, tokenizer, job, heldout, settings)
    encoded = list(encode(tokenizer, prompts))
    every = [
        {"sentences": 1, "characters": len(text), "bytes": len(text.encode()), "tokens": len(ids)}
        for text, ids in zip(heldout, tokenize(tokenizer, heldout), strict=True)
    ]
    lengths = [_total(group) for group in group_rows(every)]
    text = _total(lengths)
    metrics: dict[str, float | int] = {"steps_per_sentence": text["tokens"] / text["sentences"]}
    timings = {}
    for size in settings.batch_sizes:
        for _ in range(settings.warmup):
            _timed(model, tokenizer, encoded[:size], size, settings.new_tokens)
        passes = [
            _timed(model, tokenizer, encoded, size, settings.new_tokens)
            for _ in range(settings.repeats)
        ]
        own, timings[f"batch_{size}"] = _rates(passes, len(encoded), size, settings, text)
        metrics |= {f"{name}_batch_{size}": value for name, value in own.items()}
    rows = [{"id": f"heldout-{line}", **one} for line, one in enumerate(lengths)]
    write_jsonl(job["outputs"]["predictions"], rows)
    device = model.device
    conditions = {
        "prompts": prompts,
        "prompt_tokens": [len(ids) for ids in encoded],
        "new_tokens": settings.new_tokens,
        **{f"reference_{unit}": count for unit, count in text.items()},
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "precision": str(model.dtype).removeprefix("torch."),
    }
    return Measurement(metrics, conditions | timings)


TASK = TaskKind(SpeedSettings, evaluate, tests="none", runs_alone=True, prompts="translation")


def _total(lengths: list[Lengths]) -> Lengths:
    return {unit: sum(one[unit] for one in lengths) for unit in lengths[0]}


def _rates(
    passes: list[Pass], prompts: int, size: int, settings: SpeedSettings, text: Lengths
) -> tuple[dict[str, float], dict[str, Any]]:
    """Metrics of one batch size, and the measurements behind them."""
    seconds = [one.reading + one.decoding for one in passes]
    batches = prompts // size
    steps = batches * (settings.new_tokens - 1)  # reading the prompt yields the first token
    steps_per_second = steps / median(one.decoding for one in passes)
    texts = [one.replace("\N{REPLACEMENT CHARACTER}", "") for one in passes[-1].texts]
    written = {
        "tokens": prompts * settings.new_tokens,
        "characters": sum(map(len, texts)),
        "bytes": sum(len(one.encode()) for one in texts),
    }
    text_steps = text["tokens"] / size  # with all rows of a batch in use
    rates = {
        **{f"{unit}_per_second": count / median(seconds) for unit, count in written.items()},
        "steps_per_second": steps_per_second,
        "same_text_characters_per_second": text["characters"] / text_steps * steps_per_second,
        "same_text_bytes_per_second": text["bytes"] / text_steps * steps_per_second,
        "first_token_seconds": median(one.reading for one in passes) / batches,
        "spread": (max(seconds) - min(seconds)) / median(seconds),
    }
    details = {
        "seconds": seconds,
        "seconds_reading_prompts": [one.reading for one in passes],
        "steps": steps,
        "generated": written,
        "texts": passes[-1].texts,
    }
    return rates, details


def _timed(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    prompts: list[list[int]],
    size: int,
    new_tokens: int,
) -> Pass:
    import torch
    from transformers import StoppingCriteriaList

    moments: list[float] = []  # when a batch begins, and when its first token is there

    def note_first_token(ids: "torch.Tensor", scores: Any, **_: Any) -> "torch.Tensor":
        if len(moments) == 1:
            moments.append(_now(model.device))
        return torch.zeros(len(ids), dtype=torch.bool, device=ids.device)

    reading = decoding = 0.0
    rows: list[list[int]] = []
    for at in range(0, len(prompts), size):
        moments[:] = [_now(model.device)]
        ids = continue_greedily(
            model,
            prompts[at : at + size],
            padding=padding_token(tokenizer),
            stop_tokens=sorted(end_tokens(model, tokenizer)),
            max_new_tokens=new_tokens,
            min_new_tokens=new_tokens,
            criteria=StoppingCriteriaList([note_first_token]),
        )
        begin, first_token, end = *moments, _now(model.device)
        reading += first_token - begin
        decoding += end - first_token
        rows.extend(ids.tolist())
    return Pass(reading, decoding, decode(tokenizer, rows))


def _now(device: "torch.device") -> float:
    """Seconds on a monotonic clock, after the device has finished its work."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _prompts(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    job: dict[str, Any],
    heldout: list[str],
    settings: SpeedSettings,
) -> list[str]:
    corpus, count = job["inputs"]["corpus"], settings.prompts
    summarize = settings.prompts_from == "summarization"
    pairs = task_rows(corpus, settings.prompts_from)
    sources = [pair["source"] for pair in pairs] if pairs or summarize else heldout
    if not sources:
        raise UserError(
            f"config/tasks.yaml: task '{job['task']}': {corpus} has no texts for "
            f"{settings.prompts_from}; give the language some"
        )
    # Prompts of a small text are repeated, so that batches are always full.
    sources = list(islice(cycle(sources), count))
    if summarize:
        return article_prompts(
            model,
            tokenizer,
            job,
            sources,
            max_prompt_tokens=settings.max_prompt_tokens,
            max_new_tokens=settings.new_tokens,
        ).texts
    if pairs:
        return translation_prompts(job["inputs"]["prompts"], job["language"], sources)
    return sources
