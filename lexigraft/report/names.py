"""Display names of metrics, initializers, strategies, tasks and languages.

Metrics, kinds of tasks and methods declare their own; here are names of numbers that no task
computes, and of entries that papers name.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from typing import Final

from lexigraft.evaluation.metric_kinds import MetricKind, text_metrics
from lexigraft.evaluation.task_kinds import ENGLISH, WITH_ENGLISH, kinds, task_kind
from lexigraft.initialization.registry import declaration, methods
from lexigraft.report.items import CARD_TASKS

ENGLISH_BITS_PER_BYTE = "english_bits_per_byte"
# The unit of speeds that are comparable across vocabularies: characters of the same text.
SAME_TEXT: Final = "same_text_characters"
AVERAGE = "average"  # the kind of task of a mean over several tasks
# Entries of config/initializers.yaml with the names of papers' methods.
_ENTRIES = {"awedist": "AweDist", "fvt": "FVT", "retok": "ReTok"}
_BENCHMARKS = {
    "arc": "ARC",
    "arc-easy": "ARC-E",
    "belebele": "Belebele",
    "boolq": "BoolQ",
    "hellaswag": "HellaSwag",
    "ifeval": "IFEval",
    "mgsm": "MGSM",
    "mmmlu": "MMMLU",
    "openbookqa": "OpenBookQA",
    "piqa": "PIQA",
    "truthfulqa": "TruthfulQA",
    "winogrande": "WinoGrande",
    "xcopa": "XCOPA",
    "xnli": "XNLI",
    "xstorycloze": "XStoryCloze",
    "xwinograd": "XWinograd",
}
# Learned metrics, and numbers of tokenizers, initializers and training logs: name, title,
# decimals, and whether higher is better.
_UNDECLARED = (
    ("bleurt", "BLEURT", 3, True),
    ("comet", "COMET", 3, True),
    ("xcomet", "xCOMET", 3, True),
    ("bleu_1", "BLEU-1", 1, True),
    ("semantic_similarity", "similarity", 3, True),
    ("vocabulary_coverage", "vocabulary coverage", 3, True),
    ("text_coverage", "text coverage", 3, True),
    ("first_loss", "loss of the first step", 2, False),
    ("last_loss", "loss of the last step", 4, False),
    ("size", "tokens in the vocabulary", 0, True),
    ("new_tokens", "new tokens", 0, True),
    ("copied_tokens", "copied tokens", 0, True),
    ("initialized_tokens", "initialized tokens", 0, False),
    ("share_copied", "share of copied tokens", 3, True),
    ("flops_per_token", "operations per token", 0, False),
    ("flops_per_batch", "operations per batch", 0, False),
    ("bits_per_byte_before", "bits per byte before training", 3, False),
    ("fertility", "tokens per word", 2, False),
    ("word_fertility", "tokens per distinct word", 2, False),
    ("tokens_per_sentence", "tokens per sentence", 1, False),
    ("train_tokens_per_sentence", "tokens per training sentence", 2, False),
    ("steps_per_sentence", "decoding steps per sentence", 1, False),
    ("bytes_per_token", "bytes per token", 2, True),
    ("characters_per_token", "characters per token", 2, True),
    ("english_parity", "tokens per token of English", 2, False),
)
_SPEED = re.compile(r"(?P<unit>\w+)_per_second_batch_(?P<batch>\d+)(?P<ratio>_over_source)?")
_VALIDATION_LOSS = re.compile(r"validation_loss_(\d+)")
TOKENS_TO_LOSS = re.compile(r"tokens_to_loss_(\d+(\.\d+)?)")
# Numbers per token: they are not compared across vocabularies.
_PER_TOKEN = re.compile(
    r"(english_)?perplexity(_.*)?|nats_per_token|\w*loss\w*|(answer_)?tokens_per_second_batch_\d+|"
    "steps_per_sentence"
)
# Titles of entries of the study: registry -> name -> title.
_TITLES: ContextVar[Mapping[str, Mapping[str, str]] | None] = ContextVar("titles", default=None)


@cache
def metric(name: str) -> MetricKind:
    """How the metric `name` is shown; the title of an unknown metric is its name.

    A task that tests English or the languages of a group has `english_<metric>` and
    `<metric>_<language>`, which are shown like the metric.
    """
    metrics = {
        undeclared: MetricKind(undeclared, title, higher, decimals)
        for undeclared, title, decimals, higher in _UNDECLARED
    }
    metrics |= {of_kind.name: of_kind for kind in kinds() for of_kind in task_kind(kind).metrics}
    metrics |= text_metrics()
    metrics |= {kind.companion.name: kind.companion for kind in metrics.values() if kind.companion}
    if name in metrics:
        return metrics[name]
    base = name.removeprefix(f"{ENGLISH}_")
    if base != name and base in metrics:
        return replace(metrics[base], name=name, title=f"English {metrics[base].title}")
    base = name.removesuffix(WITH_ENGLISH)
    if base != name and base in metrics:
        return replace(metrics[base], name=name, title=f"{metrics[base].title}, with English")
    for base in ("accuracy", "f1", "exact_match", "perplexity", "bits_per_byte"):
        if name.startswith(f"{base}_"):
            language = name.removeprefix(f"{base}_")
            return replace(metrics[base], name=name, title=f"{metrics[base].title} ({language})")
    if speed := _SPEED.fullmatch(name):
        unit, batch = speed["unit"].replace("_", " "), f"batch {speed['batch']}"
        if speed["ratio"]:
            of_unit = "" if speed["unit"] == SAME_TEXT else f" of {unit}"
            return MetricKind(name, f"speed-up{of_unit}, {batch}", decimals=2)
        return MetricKind(name, f"{unit} per second, {batch}")
    if at := _VALIDATION_LOSS.fullmatch(name):
        return MetricKind(name, f"validation loss at {at[1]} %", False, decimals=2)
    if loss := TOKENS_TO_LOSS.fullmatch(name):
        return MetricKind(name, f"million tokens to a loss of {loss[1]}", False, decimals=0)
    lower = "perplexity" in name or "loss" in name or "seconds" in name
    return MetricKind(name, name.replace("_", " "), not lower, decimals=3)


def is_per_token(name: str) -> bool:
    """Whether a metric depends on how text is split, and so compares no two vocabularies."""
    return _PER_TOKEN.fullmatch(name) is not None


def primary_metric(kind: str, names: list[str]) -> str | None:
    """The main metric of a kind of task; None for tasks that do not measure quality.

    That of a kind that this version does not know is the first in its records.
    """
    primary = task_kind(kind).primary_metric if kind in kinds() else ""
    if primary is None or not names or kind in CARD_TASKS:
        return None
    return primary if primary in names else names[0]


@contextmanager
def display_titles(titles: Mapping[str, Mapping[str, str]]) -> Iterator[None]:
    """Show entries of a study by their titles, if they have one: registry -> name -> title."""
    token = _TITLES.set(titles)
    try:
        yield
    finally:
        _TITLES.reset(token)


def initializer_name(key: str) -> str:
    """The title of an initializer, or `Mean of all` for `mean-of-all`."""
    return _readable(_title("initializers", key))


def strategy_name(key: str) -> str:
    """The title of a strategy, or its name; empty for `none`."""
    return _title("strategies", key) if key != "none" else ""


def source_name(key: str) -> str:
    """The title of a source model, or its name."""
    return _title("sources", key)


def task_name(task: str, kind: str) -> str:
    """A short name of a task: `MT` for translation, `ARC-E 5-shot` for arc-easy-5-shot."""
    if kind == AVERAGE:
        return task
    title = _title("tasks", task)
    benchmark, *shots = title.removesuffix("-shot").rsplit("-", 1)
    if benchmark in _BENCHMARKS and title.endswith("-shot"):
        return f"{_BENCHMARKS[benchmark]} {shots[0]}-shot"
    if title != task:
        return _readable(title)
    title_of_kind = task_kind(kind).title if kind in kinds() else None
    return title_of_kind or _BENCHMARKS.get(task) or _readable(task)


def row_name(initializer: str, strategy: str) -> str:
    """The name in the model column of a table: Source, LAPT or the initializer."""
    if initializer == "none":
        return "Source" if strategy == "none" else "LAPT"
    return initializer_name(initializer)


def language_name(key: str, languages: Mapping[str, Mapping[str, str]]) -> str:
    """The name in the registry, otherwise the capitalized key."""
    return languages.get(key, {}).get("name") or _readable(key)


def listed(names: Iterable[str]) -> str:
    """`a, b and c`."""
    *first, last = [*names] or [""]
    return " and ".join([", ".join(first), last] if first else [last])


def _title(registry: str, key: str) -> str:
    return (_TITLES.get() or {}).get(registry, {}).get(key, key)


def _readable(key: str) -> str:
    first, *rest = re.split("[-_ ]", key)
    name = declaration(first).title if first in methods() else first[:1].upper() + first[1:]
    return " ".join([_ENTRIES.get(first, name), *rest])
