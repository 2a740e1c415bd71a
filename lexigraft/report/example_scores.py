"""What each test example adds to a score: the statistics that a bootstrap resamples."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexigraft.report.bootstrap import Score
from lexigraft.report.statistics import (
    bits_score,
    bleu_score,
    bleu_statistics,
    chrf_score,
    chrf_statistics,
    entity_statistics,
    f1_score,
    mean_of,
    mean_score,
    perplexity_score,
)

if TYPE_CHECKING:
    import numpy as np

Row = dict[str, Any]

# Of a sentence: what a metric of perplexity divides by what, and its score.
_LIKELIHOOD = {
    "bits_per_byte": ("nats", "bytes", bits_score),
    "perplexity": ("nats", "tokens", perplexity_score),
    "nats_per_token": ("nats", "tokens", mean_score),
}
# Up to how many words together count.
_CHRF = {"chrf": 0, "chrf_plus_plus": 2}
_ENGLISH = "english"


@dataclass(frozen=True)
class ExampleScores:
    """Statistics of the examples of one run.

    Attributes
    ----------
    ids
        What the examples are called.
    statistics
        [examples, statistics]: what is summed over examples before it is scored.
    score
        From summed statistics to the metric's score.
    alone
        [examples]: the score of each example by itself.
    """

    ids: list[str]
    statistics: "np.ndarray"
    score: Score
    alone: "np.ndarray"


def example_scores(
    rows: list[Row], kind: str, metric: str, details: Mapping[str, Any]
) -> ExampleScores | None:
    """The statistics behind a metric of one run, from its predictions.

    chrF and BLEU are scores of all n-gram counts and no means of sentence scores, so their
    statistics are those counts; of bits per byte they are nats and bytes, of the F1 of tags
    entities. All other metrics are means: the statistics are the score and one.

    Some tasks test several languages where the cell's is a group, and their metric is the mean over
    these: each language has columns of its own. A metric that is called after one of the tests
    (`english_accuracy`, `bits_per_byte_te`) is that test's.

    Parameters
    ----------
    rows
        The predictions of the run.
    kind
        The task's.
    details
        Of the run's record: signatures say how its texts were cut.

    Returns
    -------
    ExampleScores or None
        None where not every example has such a score.
    """
    import numpy as np

    base, rows = _tested(rows, kind, metric)
    statistics, score = _measure(kind, base, details)
    try:
        found = [statistics(row) for row in rows]
    except KeyError:
        return None
    if not found:
        return None
    values = np.array(found, dtype=np.float64)
    ids = [str(row["id"]) for row in rows]
    tests = list(dict.fromkeys(row.get("test") for row in rows))
    if kind == "perplexity" or len(tests) == 1:
        return ExampleScores(ids, values, score, score(values))
    width = values.shape[1]
    apart = np.zeros((len(rows), len(tests) * width))
    for at, row in enumerate(rows):
        begin = tests.index(row.get("test")) * width
        apart[at, begin : begin + width] = values[at]
    return ExampleScores(ids, apart, mean_of(score, len(tests)), score(values))


def _tested(rows: list[Row], kind: str, metric: str) -> tuple[str, list[Row]]:
    """A metric's name without that of a test, and the rows of the tests that it is of.

    Rows say which test they belong to where a task has several.
    """
    own = [row for row in rows if row.get("test") != _ENGLISH]
    if metric.startswith(f"{_ENGLISH}_"):
        return metric.removeprefix(f"{_ENGLISH}_"), _of(rows, [_ENGLISH])
    for test in dict.fromkeys(str(row.get("test")) for row in own):
        if metric.endswith(f"_{test}"):
            return metric.removesuffix(f"_{test}"), _of(rows, [test])
    # A cell whose own language is English has that test alone.
    return metric, own or rows


def _of(rows: list[Row], tests: Collection[str]) -> list[Row]:
    return [row for row in rows if row.get("test") in tests]


def _measure(
    kind: str, metric: str, details: Mapping[str, Any]
) -> tuple[Callable[[Row], Sequence[float]], Score]:
    """What a row adds to a metric, and what the metric makes of the sum."""
    if kind == "perplexity" and metric in _LIKELIHOOD:
        above, below, score = _LIKELIHOOD[metric]
        return lambda row: [row[above], row[below]], score
    if kind == "tagging" and metric == "f1":
        return lambda row: entity_statistics(row["output"], row["reference"]), f1_score
    if metric in _CHRF:
        words = _CHRF[metric]
        return lambda row: chrf_statistics(row["output"], row["reference"], words), chrf_score
    if metric == "bleu" and "bleu_signature" in details:
        tokenize = _tokenizer(details["bleu_signature"])
        return lambda row: bleu_statistics(row["output"], row["reference"], tokenize), bleu_score
    name = metric.removesuffix("_sentence_mean")
    return lambda row: [float(row[name]), 1.0], mean_score


def _tokenizer(signature: str) -> Callable[[str], str]:
    """The one that sacrebleu's signature of a BLEU score names."""
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=dict(part.split(":") for part in signature.split("|"))["tok"]).tokenizer
