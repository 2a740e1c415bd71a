"""Metrics: their declarations, and how to look them up by name.

A metric of generated text is one module in `metrics/` with a `MetricKind` called `METRIC`, and is
named in the setting `metrics` of tasks. Metrics that a task computes are declared in its module.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import getfile
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field

from lexigraft.errors import suggestion
from lexigraft.registry import Registry

Rows = list[dict[str, Any]]


class TextScores(NamedTuple):
    """The scores of the generated texts of a run."""

    score: float  # of all texts together
    signature: str  # how it was computed, for the details of the record
    examples: Sequence[float] | None = None  # of each text, if the metric has such scores
    companion: float | None = None  # the score by the metric's `companion`


# From outputs and references, one reference for each output.
Scorer = Callable[[Sequence[str], Sequence[str]], TextScores]


@dataclass(frozen=True)
class MetricKind:
    """A metric: its name in records, how it is shown, and how it is computed."""

    name: str
    title: str  # its usual name
    higher_is_better: bool = True
    decimals: int = 1  # digits after the point in tables and sentences
    version: int = 1  # raise it if the same texts get other scores
    noise: float | None = None  # scores up to this value are noise: they are not compared
    # For metrics of generated text: `scorer(settings, language)` loads what it needs and returns a
    # function that scores texts in a language, an ISO 639 code, by the settings of the task.
    scorer: Callable[[Any, str | None], Scorer] | None = None
    # Another metric of the same texts, stored beside this one, and the note that explains it.
    companion: "MetricKind | None" = None
    companion_note: str = ""
    # For a bootstrap, if the metric is not the mean of example scores: `statistics(rows, details)`
    # of the predictions of a run, one list of numbers for each row; and `total`, the score of their
    # sums, of [..., statistics] -> [...]. `details` are those of the record.
    statistics: Callable[[Rows, Mapping[str, Any]], Sequence[Sequence[float]]] | None = None
    total: Callable[[Any], Any] | None = None
    # Whether the score of a group of languages pools their examples; others are means over them.
    pools_languages: bool = False


ACCURACY = MetricKind("accuracy", "accuracy", decimals=3)


METRICS: Registry[MetricKind] = Registry("lexigraft.evaluation.metrics", "METRIC", "metric")
metric_file = METRICS.file


def text_metrics() -> dict[str, MetricKind]:
    """Every metric of generated text, by name."""
    return {name: METRICS.get(name) for name in METRICS.names()}


def register_metric(metric: MetricKind) -> None:
    """Add a metric of generated text that is defined outside this package, by its `scorer`."""
    METRICS.register(metric.name, metric, getfile(metric.scorer))  # type: ignore[arg-type]


def _known(names: list[str]) -> list[str]:
    for name in names:
        if name not in text_metrics():
            raise ValueError(f"'{name}' is not a metric{suggestion(name, text_metrics())}")
    return names


# The setting `metrics` of a task that generates text.
TextMetrics = Annotated[list[str], AfterValidator(_known), Field(min_length=1)]


def texts_of(rows: Rows) -> tuple[list[str], list[str]]:
    """Outputs and references of predictions."""
    return [row["output"] for row in rows], [row["reference"] for row in rows]


def check_pairs(predictions: Sequence[str], references: Sequence[str]) -> None:
    """Raise `ValueError` if there is nothing to score, or if the numbers of texts differ."""
    if not references or len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} predictions for {len(references)} references")


def scorers_of(settings: Any, language: str | None) -> dict[str, Scorer]:
    """The scorers of the metrics that the settings of a task name, for texts in a language."""
    metrics = map(METRICS.get, settings.metrics)
    return {metric.name: metric.scorer(settings, language) for metric in metrics if metric.scorer}


def score_texts(
    scorers: Mapping[str, Scorer], rows: Rows, details: Mapping[str, Any]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Score the `output` of each row against its `reference` by several metrics.

    Adds the scores of single texts to the rows. Returns the metrics of the record, and its details:
    the signature of each metric (`signature` is that of the first one), then `details`.
    """
    outputs, references = texts_of(rows)
    scores: dict[str, float] = {}
    signatures: dict[str, str] = {}
    for name, scorer in scorers.items():
        computed, companion = scorer(outputs, references), text_metrics()[name].companion
        signatures[f"{name}_signature" if signatures else "signature"] = computed.signature
        scores[name] = computed.score
        if companion is not None and computed.companion is not None:
            scores[companion.name] = computed.companion
        if computed.examples is not None:
            for row, score in zip(rows, computed.examples, strict=True):
                row[name] = score
    return scores, signatures | dict(details)
