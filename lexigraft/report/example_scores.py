"""The contribution of each test example to a score: the statistics that a bootstrap resamples.

A bootstrap needs thousands of scores, so they are computed from sums of these statistics: each
metric scores all resamples at once.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from lexigraft.evaluation.task_kinds import ENGLISH, WITH_ENGLISH, kinds, task_kind

Score = Callable[[np.ndarray], np.ndarray]  # summed statistics [..., statistics] -> scores [...]
Row = dict[str, Any]


class ExampleScores(NamedTuple):
    """Statistics of the examples of one run."""

    ids: list[str]  # names of the examples
    statistics: np.ndarray  # [examples, statistics]: summed over examples, then scored
    score: Score  # from summed statistics to the metric's score
    single: np.ndarray  # [examples]: the score of each single example


def example_scores(
    rows: list[Row], kind: str, metric: str, details: Mapping[str, Any]
) -> ExampleScores | None:
    """The statistics behind a metric of one run, from its predictions `rows`.

    A metric that is not a mean of example scores declares its statistics. For all other metrics,
    they are the example's score and one; None if an example has no score. The signatures in the
    `details` of the run's record specify how its texts were tokenized.

    Some tasks test several languages if the cell's language is a group, and their metric is the
    mean over these: each language then has separate columns. A metric with the name of a test
    (`english_accuracy`, `bits_per_byte_te`) refers to that test.
    """
    metric, rows = _of_one_test(rows, metric)
    if not rows:
        return None
    declared = task_kind(kind).metric(metric) if kind in kinds() else None
    try:
        if declared and declared.statistics and declared.total:
            values = np.array(declared.statistics(rows, details), dtype=np.float64)
            score: Score = declared.total
        else:
            name = metric.removesuffix("_sentence_mean")
            values = np.array([[float(row[name]), 1.0] for row in rows])
            score = mean_score
    except KeyError:
        return None
    ids = [str(row["id"]) for row in rows]
    tests = list(dict.fromkeys(row.get("test") for row in rows))
    if len(tests) == 1 or (declared and declared.pools_languages):
        return ExampleScores(ids, values, score, score(values))
    by_test = np.zeros((len(rows), len(tests), values.shape[1]))
    by_test[range(len(rows)), [tests.index(row.get("test")) for row in rows]] = values

    def mean_over_tests(totals: np.ndarray) -> np.ndarray:  # [..., tests * statistics] -> [...]
        return score(totals.reshape(*totals.shape[:-1], len(tests), -1)).mean(axis=-1)

    return ExampleScores(ids, by_test.reshape(len(rows), -1), mean_over_tests, score(values))


def mean_score(totals: np.ndarray) -> np.ndarray:
    """The mean of example scores: [..., 2] -> [...]; missing if nothing was drawn."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(totals[..., 1] > 0, totals[..., 0] / totals[..., 1], np.nan)


def _of_one_test(rows: list[Row], metric: str) -> tuple[str, list[Row]]:
    """A metric's name without that of a test, and the rows of the tests that it refers to.

    Rows name their test if a task has several.
    """
    if metric.startswith(f"{ENGLISH}_"):
        english = [row for row in rows if row.get("test") == ENGLISH]
        return metric.removeprefix(f"{ENGLISH}_"), english
    if metric.endswith(WITH_ENGLISH):
        return metric.removesuffix(WITH_ENGLISH), rows
    adapted = [row for row in rows if row.get("test") != ENGLISH]
    for test in dict.fromkeys(str(row.get("test")) for row in adapted):
        if metric.endswith(f"_{test}"):
            of_test = [row for row in adapted if row.get("test") == test]
            return metric.removesuffix(f"_{test}"), of_test
    # A cell adapted to English has only the English test.
    return metric, adapted or rows
