"""Generation speed of a cell: tokens, characters and bytes per second, also on the same text."""

import math
import time
from collections.abc import Sequence, Set
from itertools import cycle, islice
from statistics import median
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from lexigraft.artifacts.atomic import write_jsonl
from lexigraft.corpus.lines import corpus_sentences
from lexigraft.errors import UserError
from lexigraft.evaluation.costs import TaskSizes, Work
from lexigraft.evaluation.prompts import fit_texts, summarization_frame, translation_frame
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings, task_kind
from lexigraft.evaluation.tasks import summarization, translation
from lexigraft.evaluation.texts import group_rows, new_token_ids, task_rows
from lexigraft.inference.text_encoding import encode, tokenize
from lexigraft.settings import KeyedError, Settings


class SpeedSettings(Settings):
    """How much is generated, and how often; config/tasks.yaml explains the keys."""

    prompts_from: Literal["translation", "summarization"] = "translation"
    max_prompt_tokens: int = Field(4096, ge=1)
    batch_sizes: list[Annotated[int, Field(ge=1)]] = Field([1, 16], min_length=1)
    prompts: int = Field(16, ge=1)
    new_tokens: int = Field(32, ge=2)
    warmup: int = Field(1, ge=0)
    repeats: int = Field(5, ge=1)
    answers: bool = False

    @property
    def max_new_tokens(self) -> int:
        """The same, as tasks that generate call it."""
        return self.new_tokens

    @model_validator(mode="after")
    def _has_whole_batches(self) -> "SpeedSettings":
        for size in self.batch_sizes:
            if self.prompts % size:
                why = f"{self.prompts} is not a multiple of batch size {size}"
                raise KeyedError("prompts", why)
        return self


# Of a timed pass over all prompts: seconds up to the first tokens, seconds after them, and ids.
Pass = tuple[float, float, list[list[int]]]


def evaluate(model: Any, tokenizer: Any, job: dict[str, Any]) -> Measurement:
    """Time greedy generation on fixed prompts, the same texts for every cell.

    `tokens_per_second_batch_B` (Yamaguchi et al., section 6.5) alone rewards a tokenizer that
    splits words into bytes. So these are reported as well, for each batch size B:

    - `same_text_characters_per_second_batch_B` and `same_text_bytes_per_second_batch_B`: the
      held-out text over the decoding steps that this vocabulary needs for it times the measured
      time of a step. This is the figure to compare vocabularies by; it includes the cost of a
      larger output matrix. `benchmarks/generation.py` checks it against forced generation.
    - `first_token_seconds_batch_B`, the time to read a batch of prompts.
    - `spread_batch_B`, the variation of the repeats: longest minus shortest, over the median.
    - with `answers`, of texts that end at a line feed, an end-of-text token or `new_tokens`:
      `answer_tokens_per_second_batch_B`, the measure of the paper, which includes the time to read
      prompts; `answer_characters_per_second_batch_B`; and `answer_new_token_share_batch_B`, the
      share of new tokens among theirs, without which new tokens save no steps.

    `steps_per_sentence` is the mean number of decoding steps of a held-out sentence. The prompts
    are the corpus's first translation prompts or, without parallel text, held-out sentences; or its
    first articles, truncated to fit.

    Writes `outputs["predictions"]`: one JSON object per held-out sentence (or sums over a thousand
    groups) with its `characters`, `bytes` and `tokens`. Raises `UserError` if the corpus has no
    held-out text or no prompts.
    """
    import torch

    from lexigraft.inference.generation import cut, decode, end_tokens
    from lexigraft.inference.stop_strings import StopStrings

    settings = read_settings(SpeedSettings, job)
    corpus, new_tokens = job["inputs"]["corpus"], settings.new_tokens
    heldout = corpus_sentences(corpus, "heldout")
    if not heldout:
        raise UserError(f"{corpus}/heldout.txt: empty; give the language more text")
    prompts = _prompts(model, tokenizer, job, heldout, settings)
    encoded = list(encode(tokenizer, prompts))
    units = [
        {"sentences": 1, "characters": len(text), "bytes": len(text.encode()), "tokens": len(ids)}
        for text, ids in zip(heldout, tokenize(tokenizer, heldout), strict=True)
    ]
    groups = [_sum(group) for group in group_rows(units)]
    text = _sum(groups)
    metrics: dict[str, float | int] = {"steps_per_sentence": text["tokens"] / text["sentences"]}
    timings = {}
    stops = StopStrings(tokenizer, ["\n"])
    for size in settings.batch_sizes:
        options = {"batch_size": size, "new_tokens": new_tokens}
        for _ in range(settings.warmup):
            time_pass(model, tokenizer, encoded[:size], **options)
        passes = [time_pass(model, tokenizer, encoded, **options) for _ in range(settings.repeats)]
        outputs = decode(tokenizer, passes[-1][-1])
        measured, timings[f"batch_{size}"] = rates(passes, outputs, size, new_tokens, text)
        if settings.answers:
            passes = [
                time_pass(model, tokenizer, encoded, **options, stops=stops)
                for _ in range(settings.repeats)
            ]
            ends, new = end_tokens(model, tokenizer), new_token_ids(job["inputs"]["tokenizer"])
            answers = [cut(tokenizer, ids, stops, ends) for ids in passes[-1][-1]]
            measured |= answer_rates(passes, answers, new)
            timings[f"batch_{size}"]["answers"] = [answer.text for answer in answers]
        metrics |= {f"{name}_batch_{size}": value for name, value in measured.items()}
    rows = [{"id": f"heldout-{number}", **group} for number, group in enumerate(groups)]
    write_jsonl(job["outputs"]["predictions"], rows)
    device = model.device
    conditions = {
        "prompts": prompts,
        "prompt_tokens": [len(ids) for ids in encoded],
        "new_tokens": new_tokens,
        **{f"reference_{unit}": count for unit, count in text.items()},
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "precision": str(model.dtype).removeprefix("torch."),
    }
    return Measurement(metrics, conditions | timings)


def time_pass(
    model: Any,
    tokenizer: Any,
    prompts: list[list[int]],
    *,
    batch_size: int,
    new_tokens: int,
    stops: Any = None,
) -> Pass:
    """Continue each prompt greedily by exactly `new_tokens`, in batches, and take the times.

    With `stops`, `StopStrings` of single bytes, a text also ends there or at an end-of-text token.
    """
    import torch
    from transformers import StoppingCriteriaList

    from lexigraft.inference import generation

    def seconds() -> float:
        if model.device.type == "cuda":
            torch.cuda.synchronize(model.device)  # the device has finished its work
        return time.perf_counter()

    moments: list[float] = []  # when a batch begins, and when its first token is there

    def note_first_token(ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        if len(moments) == 1:
            moments.append(seconds())
        return torch.zeros(len(ids), dtype=torch.bool, device=ids.device)

    stop_tokens = generation.end_tokens(model, tokenizer) | (stops.tokens if stops else set())
    reading = decoding = 0.0
    rows: list[list[int]] = []
    for first in range(0, len(prompts), batch_size):
        moments[:] = [seconds()]
        ids = generation.continue_greedily(
            model,
            prompts[first : first + batch_size],
            padding=generation.padding_token(tokenizer),
            stop_tokens=sorted(stop_tokens),
            max_new_tokens=new_tokens,
            min_new_tokens=0 if stops else new_tokens,
            criteria=StoppingCriteriaList([note_first_token]),
        )
        begin, first_token, end = *moments, seconds()
        reading += first_token - begin
        decoding += end - first_token
        rows.extend(ids.tolist())
    return reading, decoding, rows


def rates(
    passes: Sequence[Pass],
    outputs: list[str],
    batch_size: int,
    new_tokens: int,
    text: dict[str, int],
) -> tuple[dict[str, float], dict[str, Any]]:
    """The metrics of a batch size from its passes, and the measurements behind them.

    `outputs` are the generated texts; `text` has the `characters`, `bytes` and `tokens` of a text
    that is the same for every cell.
    """
    readings, decodings, _ = zip(*passes, strict=True)
    seconds = [reading + decoding for reading, decoding, _ in passes]
    batches = len(outputs) // batch_size
    steps = batches * (new_tokens - 1)  # reading the prompt yields the first token
    steps_per_second = steps / median(decodings)
    text_steps = text["tokens"] / batch_size  # with all rows of a batch in use
    metrics = {
        "tokens_per_second": len(outputs) * new_tokens / median(seconds),
        "steps_per_second": steps_per_second,
        "same_text_characters_per_second": text["characters"] / text_steps * steps_per_second,
        "same_text_bytes_per_second": text["bytes"] / text_steps * steps_per_second,
        "first_token_seconds": median(readings) / batches,
        "spread": (max(seconds) - min(seconds)) / median(seconds),
    }
    details = {
        "seconds": seconds,
        "seconds_reading_prompts": list(readings),
        "steps": steps,
        "texts": outputs,
    }
    return metrics, details


def answer_rates(passes: Sequence[Pass], answers: Sequence[Any], new: Set[int]) -> dict[str, float]:
    """The metrics of `answers`, of class `GeneratedText`; `new` are the ids of new tokens."""
    seconds = median(reading + decoding for reading, decoding, _ in passes)
    tokens = [token for answer in answers for token in answer.tokens]
    return {
        "answer_tokens_per_second": sum(answer.steps for answer in answers) / seconds,
        "answer_characters_per_second": sum(len(answer.text) for answer in answers) / seconds,
        "answer_new_token_share": sum(token in new for token in tokens) / max(len(tokens), 1),
    }


def _sum(units: list[dict[str, int]]) -> dict[str, int]:
    return {unit: sum(text[unit] for text in units) for unit in units[0]}


def _prompts(
    model: Any, tokenizer: Any, job: dict[str, Any], heldout: list[str], settings: SpeedSettings
) -> list[str]:
    corpus, summarize = job["inputs"]["corpus"], settings.prompts_from == "summarization"
    tests = task_kind(settings.prompts_from).corpus_tests
    pairs = task_rows(corpus, tests) if tests else []
    sources = [pair["source"] for pair in pairs] if pairs or summarize else heldout
    if not sources:
        raise UserError(
            f"config/tasks.yaml: task '{job['task']}': {corpus} has no texts for "
            f"{settings.prompts_from}; give the language some"
        )
    # Prompts of a small text are repeated, so that batches are always full.
    sources = list(islice(cycle(sources), settings.prompts))
    if summarize:
        frame = summarization_frame(job)
        texts = [("an article", text, frame.around()) for text in sources]
        sources, _ = fit_texts(model, tokenizer, job, settings, texts)
    elif pairs:
        frame = translation_frame(job, "instruction", into_english=False)
    else:
        return sources
    return [frame.fill(source) for source in sources]


def _cost(settings: SpeedSettings, sizes: TaskSizes) -> Work:
    if settings.prompts_from == "summarization":
        length = summarization.prompt_tokens(sizes, settings.max_prompt_tokens)
    else:
        length = min(translation.prompt_tokens(sizes), settings.max_prompt_tokens)
    repeats = settings.repeats * (1 + settings.answers)
    passes = len(settings.batch_sizes) * repeats
    batches = sum(
        repeats * math.ceil(settings.prompts / size) + settings.warmup
        for size in settings.batch_sizes
    )
    return Work(
        "speed",
        scored_tokens=sizes.runs * passes * settings.prompts * length,
        decoding_steps=sizes.runs * batches * settings.new_tokens,
    )


TASK = TaskKind(
    SpeedSettings,
    evaluate,
    tests="none",
    cost=_cost,
    runs_alone=True,
    prompts="translation",
)
