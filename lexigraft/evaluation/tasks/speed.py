"""How fast a cell generates: tokens, characters and bytes a second, and time on the same text."""

import time
from dataclasses import asdict, dataclass, field, fields
from statistics import median
from typing import TYPE_CHECKING, Any

from lexigraft.atomic import write_jsonl
from lexigraft.errors import UserError
from lexigraft.evaluation.prompts import article_prompts, translation_prompts
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.evaluation.texts import (
    group_rows,
    sentences,
    summarization_pairs,
    tokenize_plain,
    translation_pairs,
)
from lexigraft.inference.generation import continue_greedily, decode, end_tokens, padding_token

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True)
class SpeedSettings:
    """How much is generated, and how often.

    Attributes
    ----------
    prompts_from
        The task whose prompts are continued: `translation` or `summarization`.
    max_prompt_tokens
        Of summarization: tokens of a prompt at most; the end of a longer article is left out.
    batch_sizes
        Prompts generated together; one set of metrics for each.
    prompts
        Prompts in one repeat, a multiple of every batch size.
    new_tokens
        Tokens generated after each prompt, never fewer.
    warmup
        Untimed batches before the first repeat of a batch size.
    repeats
        Timed passes over all prompts; the metrics are medians over them.
    """

    prompts_from: str = "translation"
    max_prompt_tokens: int = 4096
    batch_sizes: list[int] = field(default_factory=lambda: [1, 16])
    prompts: int = 16
    new_tokens: int = 32
    warmup: int = 1
    repeats: int = 5


@dataclass(frozen=True)
class Text:
    """A text that is the same for every cell: how long it is, and in how many tokens of this one's.

    The tokens are the decoding steps that writing it takes.
    """

    sentences: int
    characters: int
    bytes: int
    tokens: int


@dataclass(frozen=True)
class Pass:
    """One timed pass over all prompts: seconds up to each first token, seconds after it, texts."""

    reading: float
    decoding: float
    texts: list[str]

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.reading + self.decoding


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Time greedy generation on fixed prompts, the same texts for every cell.

    Tokens per second alone reward a bad tokenizer. One that cuts a word into its bytes makes the
    model emit five times as many tokens for the same sentence: the rate per token stays the same,
    the reader waits five times as long. So these stand beside it, for each batch size B:

    - `characters_per_second_batch_B` and `bytes_per_second_batch_B`, of the text that was
      generated. They depend on what the cell happens to write; the replacement character, which
      stands for bytes that are no text, is not counted.
    - `same_text_characters_per_second_batch_B` and `same_text_bytes_per_second_batch_B`, which do
      not: the held-out text over the time that writing it takes, i.e. the decoding steps that this
      vocabulary needs for it times the measured time of a step (reading the prompt is left out).
      This is the figure that compares vocabularies, also by what a larger output matrix costs.
      `benchmarks/generation.py` forces models to write such text and compares the times.
    - `first_token_seconds_batch_B`, what reading a batch of prompts takes.
    - `spread_batch_B`, how much the repeats differ: the longest less the shortest, over the median.

    `steps_per_sentence` is the mean number of decoding steps of a held-out sentence.

    The prompts are the corpus's first translation prompts or, without parallel text, its first
    held-out sentences to be continued; or its first articles to be summarized, cut to fit. Tokens
    that end a text are suppressed, so that every cell generates equally many. `details` holds the
    conditions, every repeat's seconds and the texts. Yamaguchi et al. (section 6.5) give
    tokens per second.

    Writes `outputs["predictions"]`: one JSON object per held-out sentence, its `characters`,
    `bytes` and `tokens`, of which the figures on the same text are made; of more than a thousand
    `sentences`, sums over a thousand groups of them.

    Raises
    ------
    UserError
        Settings do not fit together, or the corpus has no held-out text or too few prompts.
    """
    import torch

    settings = read_settings(SpeedSettings, job)
    _check(settings, job["task"])
    corpus = job["inputs"]["corpus"]
    reference = sentences(corpus, "heldout")
    if not reference:
        raise UserError(f"{corpus}/heldout.txt: empty; give it more text")
    prompts = _prompts(model, tokenizer, job, reference, settings)
    encoded = tokenizer(prompts)["input_ids"]
    lengths = _lengths(tokenizer, reference)
    text = _together(lengths)
    metrics: dict[str, float | int] = {"steps_per_sentence": text.tokens / text.sentences}
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
    rows = [{"id": f"heldout-{line}", **asdict(one)} for line, one in enumerate(lengths)]
    write_jsonl(job["outputs"]["predictions"], rows)
    conditions = {
        "prompts": prompts,
        "prompt_tokens": [len(ids) for ids in encoded],
        "new_tokens": settings.new_tokens,
        **{f"reference_{name}": count for name, count in asdict(text).items()},
        "threads": torch.get_num_threads(),
        "device": _device_name(model.device),
        "precision": str(model.dtype).removeprefix("torch."),
    }
    return Measurement(metrics, conditions | timings)


TASK = TaskKind(SpeedSettings, evaluate, tests="none", runs_alone=True, prompts="translation")


def _lengths(tokenizer: "PreTrainedTokenizerFast", texts: list[str]) -> list[Text]:
    """How long each sentence is, or each group of them."""
    every = [
        Text(sentences=1, characters=len(text), bytes=len(text.encode()), tokens=len(ids))
        for text, ids in zip(texts, tokenize_plain(tokenizer, texts), strict=True)
    ]
    return [_together(group) for group in group_rows(every)]


def _together(texts: list[Text]) -> Text:
    units = [unit.name for unit in fields(Text)]
    return Text(**{unit: sum(getattr(text, unit) for text in texts) for unit in units})


def _rates(
    passes: list[Pass], prompts: int, size: int, settings: SpeedSettings, text: Text
) -> tuple[dict[str, float], dict[str, Any]]:
    """Metrics of one batch size, and what they are made of."""
    every = [one.seconds for one in passes]
    batches = prompts // size
    steps = batches * (settings.new_tokens - 1)  # the first token comes of reading the prompt
    steps_per_second = steps / median(one.decoding for one in passes)
    texts = [one.replace("\N{REPLACEMENT CHARACTER}", "") for one in passes[-1].texts]
    written = {
        "tokens": prompts * settings.new_tokens,
        "characters": sum(map(len, texts)),
        "bytes": sum(len(one.encode()) for one in texts),
    }
    text_steps = text.tokens / size  # with every row of a batch at work
    rates = {
        **{f"{unit}_per_second": count / median(every) for unit, count in written.items()},
        "steps_per_second": steps_per_second,
        "same_text_characters_per_second": text.characters / text_steps * steps_per_second,
        "same_text_bytes_per_second": text.bytes / text_steps * steps_per_second,
        "first_token_seconds": median(one.reading for one in passes) / batches,
        "spread": (max(every) - min(every)) / median(every),
    }
    details = {
        "seconds": every,
        "seconds_reading_prompts": [one.reading for one in passes],
        "steps": steps,
        "generated": written,
        "texts": passes[-1].texts,
    }
    return rates, details


class _FirstToken:
    """Notes when the first token of a batch is there: the prompt is read, decoding begins."""

    def __init__(self, device: "torch.device"):
        self.device = device
        self.at: float | None = None

    def __call__(self, input_ids: "torch.Tensor", scores: Any, **_: Any) -> "torch.Tensor":
        import torch

        if self.at is None:
            self.at = _now(self.device)
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


def _timed(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    prompts: list[list[int]],
    size: int,
    new_tokens: int,
) -> Pass:
    from transformers import StoppingCriteriaList

    reading = decoding = 0.0
    rows: list[list[int]] = []
    for at in range(0, len(prompts), size):
        first_token = _FirstToken(model.device)
        start = _now(model.device)
        ids = continue_greedily(
            model,
            prompts[at : at + size],
            padding=padding_token(tokenizer),
            stop_tokens=sorted(end_tokens(model, tokenizer)),
            max_new_tokens=new_tokens,
            min_new_tokens=new_tokens,
            criteria=StoppingCriteriaList([first_token]),
        )
        end = _now(model.device)
        assert first_token.at is not None
        reading += first_token.at - start
        decoding += end - first_token.at
        rows.extend(ids.tolist())
    return Pass(reading, decoding, decode(tokenizer, rows))


def _prompts(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    job: dict[str, Any],
    reference: list[str],
    settings: SpeedSettings,
) -> list[str]:
    corpus, count = job["inputs"]["corpus"], settings.prompts
    summarize = settings.prompts_from == "summarization"
    pairs = summarization_pairs(corpus) if summarize else translation_pairs(corpus)
    sources = [pair["source"] for pair in pairs[:count]]
    if not summarize and not pairs:
        sources = reference[:count]
    if len(sources) < count:
        raise UserError(
            f"config/tasks.yaml: task '{job['task']}': prompts is {count}, but {corpus} has "
            f"{len(sources)} for {settings.prompts_from}; lower it or give the language more"
        )
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


def _check(settings: SpeedSettings, task: str) -> None:
    if settings.prompts_from not in ("translation", "summarization"):
        raise UserError(
            f"config/tasks.yaml: task '{task}': prompts_from '{settings.prompts_from}' is neither "
            "translation nor summarization"
        )
    if settings.new_tokens < 2 or settings.repeats < 1:
        raise UserError(
            f"config/tasks.yaml: task '{task}': new_tokens must be 2 or more, repeats 1 or more"
        )
    for size in settings.batch_sizes:
        if size < 1 or settings.prompts < 1 or settings.prompts % size:
            raise UserError(
                f"config/tasks.yaml: task '{task}': prompts ({settings.prompts}) must be a "
                f"multiple of every batch size, and is not one of {size}"
            )


def _now(device: "torch.device") -> float:
    """Seconds on a steady clock, once the device has done what it was given."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _device_name(device: "torch.device") -> str:
    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
