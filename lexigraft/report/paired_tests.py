"""Paired bootstrap: would a difference between two models hold on other examples and seeds?

Score differences, speed-ups and changes of length are tested in the same way: the same examples are
drawn for both sides, and p-values of all tests made together are corrected for each other.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from lexigraft.randomness import generator
from lexigraft.report.models import AXES, COLUMN, Column, Model
from lexigraft.report.study import Predictions, StudyResults
from lexigraft.report.summarize import Frame, select
from lexigraft.report.table import MISSING, number

RESAMPLES = 5000  # enough for one of two hundred differences to be significant after correction

LEVEL = 0.05  # a difference with a corrected p below it is significant

# One model's sufficient statistics by (seed, run): [examples, statistics], with a row for every
# example of all runs, zeros if the run did not draw it.
System = dict[tuple[int, int], np.ndarray]
# Its scores by (seed, run): [1 + resamples], on all examples first, then in each resample.
Scores = dict[tuple[int, int], np.ndarray]
# Summed statistics [..., statistics] -> scores [...].
Score = Callable[[np.ndarray], np.ndarray]

_CHUNK = 5_000_000  # counts in memory at once: 40 MB

Key = TypeVar("Key", bound=Hashable)
Test = TypeVar("Test", bound="PairedTest")


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """A difference or a ratio, and whether it would hold on other examples."""

    value: float  # the difference or ratio
    low: float  # bounds of its 95 % interval
    high: float
    p: float  # two-sided, for no difference; missing if the random variation is unknown
    effect: float  # Cohen's d over examples (`effect_size`); missing for groups of examples
    examples: int  # number of examples that both sides have
    freedom: int = 0  # degrees of freedom of the spread over seeds or measurements; 0 if unknown
    corrected: float = math.nan  # `p`, corrected for all tests made together

    @property
    def stars(self) -> str:
        """`*` if the corrected p is below 0.05, `**` if it is below 0.01."""
        return "**" if self.corrected < 0.01 else "*" if self.corrected < LEVEL else ""

    def columns(self, quantity: str, freedom: str = "") -> dict[str, float | int]:
        """Columns of a CSV file for the test of a `quantity`; `freedom` names its column."""
        return {
            f"{quantity}_low": self.low,
            f"{quantity}_high": self.high,
            "p": self.p,
            "p_corrected": self.corrected,
            "effect_size": self.effect,
            "tested_examples": self.examples,
            **({freedom: self.freedom} if freedom else {}),
        }


class Spread(NamedTuple):
    """How much a score differs between seeds: a standard deviation and its degrees of freedom."""

    deviation: float
    freedom: int


def paired_test(
    first: Scores,
    second: Scores,
    alone: tuple[Scores, Scores] | None,
    noise: np.ndarray | float = 0.0,
    *,
    examples: int,
    freedom: int = 0,
    inverse: Callable[[float], float] = float,
) -> PairedTest:
    """Test the difference of two models on the same resamples of the same examples.

    Test examples are resampled, not outputs: an example comes with all its outputs, from every run
    that drew it and every seed, of both models. Runs share examples and seeds share all of them, so
    pooling outputs as if they were independent would make the interval too narrow. Runs that only
    one model has are left out.

    `p` is the share of resampled differences whose distance from the observed difference is at
    least the distance of the latter from zero, counting itself once. If the scores are equal, it is
    1. It is not corrected for multiple comparisons. The interval has the percentiles 2.5 and 97.5.

    Parameters
    ----------
    alone
        The scores of single examples on both sides; None if only groups of them are known.
    noise
        [resamples], added to the resampled differences: the effect of other seeds (`seed_noise`).
    inverse
        The inverse of the transformation of scores, such as `math.exp` for logarithms.
    """
    first, second = shared_runs(first, second)
    differences = mean_over_seeds(first) - mean_over_seeds(second)
    value, drawn = float(differences[0]), differences[1:] + noise
    drawn = drawn[np.isfinite(drawn)]
    low, high = np.percentile(drawn, (2.5, 97.5))
    # Sums of the same numbers in different orders differ in their last bits.
    extreme = np.abs(drawn - value) >= abs(value) - 1e-9
    return PairedTest(
        value=inverse(value),
        low=inverse(float(low)),
        high=inverse(float(high)),
        p=float((1 + np.count_nonzero(extreme)) / (1 + len(drawn))),
        effect=effect_size(*alone) if alone else math.nan,
        examples=examples,
        freedom=freedom,
    )


def correct_together(tests: Mapping[Key, Test]) -> dict[Key, Test]:
    """Correct known p-values for multiple comparisons (Benjamini and Hochberg 1995).

    Of all differences with a corrected p below 0.05, at most one in twenty is expected to be due to
    chance.
    """
    from scipy.stats import false_discovery_control

    known = {key: one.p for key, one in tests.items() if not math.isnan(one.p)}
    found = false_discovery_control([*known.values()]) if known else ()
    corrected = dict(zip(known, map(float, found), strict=True))
    return {key: replace(one, corrected=corrected.get(key, math.nan)) for key, one in tests.items()}


def resampled_scores(
    systems: Mapping[Key, tuple[System, Score]], examples: int, *names: str
) -> dict[Key, Scores]:
    """Scores of each system on all examples, then in each resample.

    All systems are scored on the same resamples. The draw of examples depends only on `names`, so
    that the same study yields the same numbers.
    """
    parts: dict[Key, list[Scores]] = {key: [] for key in systems}
    rng = generator("report", "bootstrap", *names)
    for counts in resampled_counts(examples, RESAMPLES, rng) if systems else ():
        for key, (system, score) in systems.items():
            parts[key].append(run_scores(system, counts, score))
    return {
        key: {run: np.concatenate([part[run] for part in own]) for run in own[0]}
        for key, own in parts.items()
    }


def resample(examples: int, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """How often each example is drawn in each resample: counts [resamples, examples].

    A resample has as many examples as the original, drawn with replacement (Koehn, 2004).
    """
    drawn = rng.integers(examples, size=(resamples, examples))
    # All resamples are counted at once: each has its own range of numbers.
    drawn += examples * np.arange(resamples)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=resamples * examples)
    return counts.reshape(resamples, examples).astype(np.float64)


def resampled_counts(
    examples: int, resamples: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Counts of each example once, then those of all resamples, in parts that fit in memory."""
    yield np.ones((1, examples))
    size = max(1, _CHUNK // examples)
    for begin in range(0, resamples, size):
        yield resample(examples, min(size, resamples - begin), rng)


def run_scores(system: System, counts: np.ndarray, score: Score) -> Scores:
    """A model's score in each row of counts, by seed and run, from sums over the drawn examples.

    A run without a drawn example gets the score of zeros.
    """
    return {key: score(counts @ statistics) for key, statistics in system.items()}


def mean_over_seeds(scores: Scores) -> np.ndarray:
    """Scores [n] averaged over runs within each seed, then over seeds, as in all tables.

    NaN scores, of runs without a drawn example, are left out.
    """
    return np.mean(list(means_by_seed(scores).values()), axis=0)


def means_by_seed(scores: Scores) -> dict[int, np.ndarray]:
    """Scores [n] averaged over the runs of each seed."""
    found: dict[int, list[np.ndarray]] = {}
    for (seed, _), values in scores.items():
        found.setdefault(seed, []).append(values)
    return {seed: _mean_of_known(runs) for seed, runs in found.items()}


def shared_runs(first: Scores, second: Scores) -> tuple[Scores, Scores]:
    """The scores of both models without the runs that only one of them has."""
    shared = {run for _, run in first} & {run for _, run in second}
    ours, theirs = (
        {key: values for key, values in scores.items() if key[1] in shared}
        for scores in (first, second)
    )
    return ours, theirs


def effect_size(first: Scores, second: Scores) -> float:
    """Cohen's d of paired examples: the mean of their differences over its standard deviation.

    Unlike the significance, it does not grow with the number of examples: 0.2 is called small, 0.5
    medium, 0.8 large (Cohen 1988). Missing if all examples have the same difference.

    The arguments are the scores of single examples by (seed, run): [examples], missing if the run
    did not draw it. The scores of an example are averaged over seeds and runs.
    """
    ours, theirs = (_mean_of_known(scores.values()) for scores in shared_runs(first, second))
    differences = ours - theirs
    differences = differences[np.isfinite(differences)]
    if len(differences) < 2:
        return math.nan
    deviation = float(differences.std(ddof=1))
    # As in `paired_test`: differences in the last bits are not a spread.
    return float(differences.mean()) / deviation if deviation > 1e-9 else math.nan


def seed_spread(models: Iterable[Sequence[float]]) -> Spread:
    """The deviation over seeds, pooled over models as in analysis of variance.

    Two or three seeds are too few to estimate a spread. Pooling all models of a column yields a
    better estimate, which also applies to models with a single seed. `models` has the scores of the
    seeds of each model.
    """
    squares, freedom = 0.0, 0
    for known in models:
        mean = sum(known) / len(known)
        squares += sum((value - mean) ** 2 for value in known)
        freedom += len(known) - 1
    return Spread(math.sqrt(squares / freedom) if freedom else 0.0, freedom)


def seed_noise(
    spread: Spread, seeds: Iterable[float], resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """The effect of other seeds on a difference of means, in each resample: [resamples].

    A parametric bootstrap (Efron and Tibshirani 1993, §6.5): two seeds drawn with replacement have
    only three possible means, with half the variance that they should have. So the effect of seeds
    is drawn from Student's t, with the pooled deviation and its degrees of freedom.

    `seeds` are the numbers of seeds of the two means, without a model that does not depend on the
    seed; for a mean over models, the number of seeds with the same variance.
    """
    scale = spread.deviation * math.sqrt(sum(1 / count for count in seeds))
    if not spread.freedom or not scale:
        return np.zeros(resamples)
    return scale * rng.standard_t(spread.freedom, size=resamples)


def repeat_noise(
    spread: Spread, repeats: Iterable[int], resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """The effect of other repeats on a difference of two medians: [resamples].

    Like `seed_noise`; the median of three or more varies more than their mean, so it is simulated.
    `spread` is that of a single repeat, `repeats` are the numbers of repeats of the two medians.
    """
    if not spread.freedom or not spread.deviation:
        return np.zeros(resamples)
    # One deviation is estimated for both; its estimation error is also drawn.
    scale = spread.deviation * np.sqrt(spread.freedom / rng.chisquare(spread.freedom, resamples))
    first, second = (
        np.median(rng.standard_normal((resamples, count)), axis=1) for count in repeats
    )
    return scale * (first - second)


def pooled_spreads(scores: Iterable[tuple[Key, object, float]]) -> dict[Key, Spread]:
    """The spread of each pool (`seed_spread`), from triples of pool, model and score."""
    pools: dict[Key, dict[object, list[float]]] = {}
    for pool, model, score in scores:
        pools.setdefault(pool, {}).setdefault(model, []).append(score)
    return {pool: seed_spread(models.values()) for pool, models in pools.items()}


def predictions_by_model(
    study: StudyResults,
) -> dict[tuple[str, str], dict[Model, list[Predictions]]]:
    """`(language, task)` -> the predictions of each model, for all seeds and runs."""
    found: dict[tuple[str, str], dict[Model, list[Predictions]]] = {}
    for one in study.predictions:
        model = Model(*(one.cell[axis] for axis in AXES))
        own = found.setdefault((one.cell["language"], one.task), {})
        own.setdefault(model, []).append(one)
    return found


def column_scores(study: StudyResults, column: Column) -> Frame:
    """The scores of a column in the whole study, not only in the part that is shown."""
    return select((study.whole or study).scores, **dict(zip(COLUMN, column, strict=True)))


def p_text(p: float) -> str:
    """`p = 0.012`, or `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def effect_text(one: PairedTest) -> str:
    """`d = +0.42`; `–` if all examples have the same difference."""
    return f"d = {number(one.effect, 2, sign=True) if math.isfinite(one.effect) else MISSING}"


def _mean_of_known(scores: Iterable[np.ndarray]) -> np.ndarray:
    """Means of the finite numbers at each position; missing if there are none."""
    return np.ma.masked_invalid(list(scores)).mean(axis=0).filled(np.nan)
