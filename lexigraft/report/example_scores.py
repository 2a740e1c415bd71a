"""The contribution of each test example to a score: the statistics that a bootstrap resamples.

A bootstrap needs thousands of scores, so they are computed from sums of these statistics: each
function scores all resamples at once. Tests compare them with sacrebleu and seqeval.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lexigraft.evaluation.metrics.bleu import bleu_score, bleu_statistics
from lexigraft.evaluation.metrics.chrf import chrf_score, chrf_statistics
from lexigraft.evaluation.task_kinds import ENGLISH
from lexigraft.report.paired_tests import Score

Row = dict[str, Any]


@dataclass(frozen=True)
class ExampleScores:
    """Statistics of the examples of one run."""

    ids: list[str]  # names of the examples
    statistics: np.ndarray  # [examples, statistics]: summed over examples, then scored
    score: Score  # from summed statistics to the metric's score
    alone: np.ndarray  # [examples]: the score of each single example


def example_scores(
    rows: list[Row], kind: str, metric: str, details: Mapping[str, Any]
) -> ExampleScores | None:
    """The statistics behind a metric of one run, from its predictions `rows`.

    Metrics that are not means of example scores have their own statistics (`_STATISTICS`), by the
    `kind` of the task. For all other metrics, the statistics are the example's score and one; None
    if an example has no score. The signatures in the `details` of the run's record specify how its
    texts were tokenized.

    Some tasks test several languages if the cell's language is a group, and their metric is the
    mean over these: each language then has separate columns. A metric with the name of a test
    (`english_accuracy`, `bits_per_byte_te`) refers to that test.
    """
    base, rows = _of_one_test(rows, metric)
    if not rows:
        return None
    statistics, score = _STATISTICS.get((kind, base), _mean_of(base))
    try:
        values = np.array(statistics(rows, details), dtype=np.float64)
    except KeyError:
        return None
    ids = [str(row["id"]) for row in rows]
    tests = list(dict.fromkeys(row.get("test") for row in rows))
    if kind == "perplexity" or len(tests) == 1:
        return ExampleScores(ids, values, score, score(values))
    apart = np.zeros((len(rows), len(tests), values.shape[1]))
    apart[range(len(rows)), [tests.index(row.get("test")) for row in rows]] = values
    summed = mean_over_tests(score, len(tests))
    return ExampleScores(ids, apart.reshape(len(rows), -1), summed, score(values))


def entity_statistics(output: str, reference: str) -> list[int]:
    """Numbers of entities in the output, in the reference, and in both: [3].

    Spaces separate the tags.
    """
    from seqeval.metrics.sequence_labeling import get_entities

    ours, theirs = ({*get_entities(tags.split())} for tags in (output, reference))
    return [len(ours), len(theirs), len(ours & theirs)]


def f1_score(totals: np.ndarray) -> np.ndarray:
    """F1 of entities, 0 to 100, of summed statistics: [..., 3] -> [...]; 0 if there are none."""
    ours, theirs, both = np.moveaxis(totals, -1, 0)
    return 200 * both / np.maximum(ours + theirs, 1)


def mean_score(totals: np.ndarray) -> np.ndarray:
    """The mean of example scores: [..., 2] -> [...]; missing if nothing was drawn."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(totals[..., 1] > 0, totals[..., 0] / totals[..., 1], np.nan)


def bits_score(totals: np.ndarray) -> np.ndarray:
    """Bits per byte of summed nats and bytes: [..., 2] -> [...]."""
    return mean_score(totals) / np.log(2)


def perplexity_score(totals: np.ndarray) -> np.ndarray:
    """Perplexity of summed nats and tokens: [..., 2] -> [...]."""
    with np.errstate(over="ignore"):
        return np.exp(mean_score(totals))


def mean_over_tests(score: Score, tests: int) -> Score:
    """The mean of a score over tests, from concatenated statistics: [..., tests * n] -> [...]."""

    def mean(totals: np.ndarray) -> np.ndarray:
        return score(totals.reshape(*totals.shape[:-1], tests, -1)).mean(axis=-1)

    return mean


# From rows and the details of their record to the statistics of each row.
_Statistics = Callable[[list[Row], Mapping[str, Any]], Sequence[Sequence[float]]]


def _texts(rows: list[Row]) -> tuple[list[str], list[str]]:
    return [row["output"] for row in rows], [row["reference"] for row in rows]


def _ratio_of(above: str, below: str) -> _Statistics:
    return lambda rows, _: [[row[above], row[below]] for row in rows]


def _mean_of(metric: str) -> tuple[_Statistics, Score]:
    name = metric.removesuffix("_sentence_mean")
    return lambda rows, _: [[float(row[name]), 1.0] for row in rows], mean_score


# Kind of task and metric -> the statistics of examples, and the score of their sum.
_STATISTICS: dict[tuple[str, str], tuple[_Statistics, Score]] = {
    ("perplexity", "bits_per_byte"): (_ratio_of("nats", "bytes"), bits_score),
    ("perplexity", "perplexity"): (_ratio_of("nats", "tokens"), perplexity_score),
    ("perplexity", "nats_per_token"): (_ratio_of("nats", "tokens"), mean_score),
    ("tagging", "f1"): (lambda rows, _: [*map(entity_statistics, *_texts(rows))], f1_score),
    ("translation", "chrf"): (lambda rows, _: chrf_statistics(*_texts(rows)), chrf_score),
    ("translation", "chrf_plus_plus"): (
        lambda rows, _: chrf_statistics(*_texts(rows), word_order=2),
        chrf_score,
    ),
    ("translation", "bleu"): (
        lambda rows, details: bleu_statistics(*_texts(rows), details["bleu_signature"]),
        bleu_score,
    ),
}


def _of_one_test(rows: list[Row], metric: str) -> tuple[str, list[Row]]:
    """A metric's name without that of a test, and the rows of the tests that it refers to.

    Rows name their test if a task has several.
    """
    own = [row for row in rows if row.get("test") != ENGLISH]
    if metric.startswith(f"{ENGLISH}_"):
        english = [row for row in rows if row.get("test") == ENGLISH]
        return metric.removeprefix(f"{ENGLISH}_"), english
    for test in dict.fromkeys(str(row.get("test")) for row in own):
        if metric.endswith(f"_{test}"):
            return metric.removesuffix(f"_{test}"), [row for row in own if row.get("test") == test]
    # A cell adapted to English has only the English test.
    return metric, own or rows
