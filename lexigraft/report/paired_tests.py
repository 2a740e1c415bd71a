"""Paired bootstrap: would a difference between two models hold on other examples and seeds?

Score differences, speed-ups and changes of length are tested alike: the same examples are drawn for
both sides, and all that are tested together are corrected for each other.
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

RESAMPLES = 5000  # so that one difference among two hundred can stand out after the correction

LEVEL = 0.05  # a difference with a corrected p below it is significant

# One model's sufficient statistics by (seed, run): [examples, statistics], a row for every example
# of all runs, zeros where the run did not draw it.
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
    low: float  # ends of its 95 % interval
    high: float
    p: float  # two-sided, of no difference; missing where nothing says how far chance reaches
    effect: float  # Cohen's d over examples (`effect_size`); missing of groups of examples
    examples: int  # that both sides were given
    freedom: int = 0  # of the spread over seeds or measurements; 0 where it is not known
    corrected: float = math.nan  # `p`, corrected for everything that was tested together

    @property
    def stars(self) -> str:
        """`*` where the corrected p is below 0.05, `**` where it is below 0.01."""
        return "**" if self.corrected < 0.01 else "*" if self.corrected < LEVEL else ""

    def columns(self, quantity: str, freedom: str = "") -> dict[str, float | int]:
        """Columns of a CSV file beside that of the `quantity`, with the name of the `freedom`."""
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
    """Test the difference of two models on the same resamples of the same examples, in one order.

    The test example is resampled, not the output: with it come all outputs for it, of every run
    that drew it and of every seed, of both models. Runs share examples and seeds share all of them,
    so outputs pooled as if they were independent would make the interval too narrow. Runs that only
    one model has are left out.

    `p` is the share of resampled differences that lie at least as far from the difference itself
    as that lies from zero, counting itself once. If the scores are equal, it is 1. It is not
    corrected for being one of many comparisons. The interval has the percentiles 2.5 and 97.5.

    Parameters
    ----------
    alone
        The scores of single examples on both sides; None where only groups of them are known.
    noise
        [resamples], added to the resampled differences: the effect of other seeds (`seed_noise`).
    inverse
        What undoes the transformation of scores, such as `math.exp` of logarithms.
    """
    first, second = shared_runs(first, second)
    differences = mean_over_seeds(first) - mean_over_seeds(second)
    value, drawn = float(differences[0]), differences[1:] + noise
    drawn = drawn[np.isfinite(drawn)]
    low, high = np.percentile(drawn, (2.5, 97.5))
    # Sums of the same numbers in another order differ in their last bits.
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
    """The same tests, with p corrected for being many (Benjamini and Hochberg 1995), where known.

    Of all differences whose corrected p is below 0.05, one in twenty is expected to be chance.
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

    All systems are scored on the same resamples. Which examples these draw depends on `names`
    alone: the same study gives the same numbers.
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

    A resample draws as many examples as there are, with replacement (Koehn, 2004).
    """
    drawn = rng.integers(examples, size=(resamples, examples))
    # All resamples are counted at once: each has numbers of its own.
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
    """A model's score in each row of counts, by seed and run: that of the drawn examples' sums.

    The score of a run of which no example was drawn is that of zeros.
    """
    return {key: score(counts @ statistics) for key, statistics in system.items()}


def mean_over_seeds(scores: Scores) -> np.ndarray:
    """Scores [n] averaged over runs within each seed, then over seeds, as in all tables.

    A score that is not a number, of a run of which no example was drawn, is left out.
    """
    return np.mean(list(means_by_seed(scores).values()), axis=0)


def means_by_seed(scores: Scores) -> dict[int, np.ndarray]:
    """Scores [n] averaged over the runs of each seed."""
    found: dict[int, list[np.ndarray]] = {}
    for (seed, _), values in scores.items():
        found.setdefault(seed, []).append(values)
    return {seed: _mean_of_known(runs) for seed, runs in found.items()}


def shared_runs(first: Scores, second: Scores) -> tuple[Scores, Scores]:
    """Both models without the runs that only one of them has."""
    shared = {run for _, run in first} & {run for _, run in second}
    ours, theirs = (
        {key: values for key, values in scores.items() if key[1] in shared}
        for scores in (first, second)
    )
    return ours, theirs


def effect_size(first: Scores, second: Scores) -> float:
    """Cohen's d of paired examples: the mean of their differences over its standard deviation.

    Unlike `p` it does not grow with the number of examples: 0.2 is called small, 0.5 medium, 0.8
    large (Cohen 1988). Missing where all examples differ by the same.

    Of both sides: the score of each example by itself, by (seed, run): [examples], missing where
    the run did not draw it. Those of an example are averaged over seeds and runs.
    """
    ours, theirs = (_mean_of_known(scores.values()) for scores in shared_runs(first, second))
    differences = ours - theirs
    differences = differences[np.isfinite(differences)]
    if len(differences) < 2:
        return math.nan
    deviation = float(differences.std(ddof=1))
    # As above: the last bits are no spread.
    return float(differences.mean()) / deviation if deviation > 1e-9 else math.nan


def seed_spread(models: Iterable[Sequence[float]]) -> Spread:
    """The deviation over seeds, pooled over models as in analysis of variance.

    Two or three seeds are too few to estimate a spread; those of all models of a column together
    are more, and also stand for a model that was trained with one seed alone. `models` has the
    scores of each one's seeds.
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
    """What other seeds would add to a difference of means, in each resample: [resamples].

    A parametric bootstrap (Efron and Tibshirani 1993, §6.5): two seeds drawn with replacement have
    only three means, with half the variance that they should have; so the effect of seeds is drawn
    from Student's t, with the pooled deviation and its degrees of freedom.

    `seeds`: how many each of the two means is over; none for a model that no seed changes. Of a
    mean over models, how many would vary as much.
    """
    scale = spread.deviation * math.sqrt(sum(1 / count for count in seeds))
    if not spread.freedom or not scale:
        return np.zeros(resamples)
    return scale * rng.standard_t(spread.freedom, size=resamples)


def repeat_noise(
    spread: Spread, repeats: Iterable[int], resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """What other repeats would add to a difference of two medians: [resamples].

    As `seed_noise`; the median of three or more varies more than their mean, so it is simulated.
    `spread` is of a single repeat, `repeats` how many each of the two is the median of.
    """
    if not spread.freedom or not spread.deviation:
        return np.zeros(resamples)
    # One deviation is estimated for both, with an error that is drawn too.
    scale = spread.deviation * np.sqrt(spread.freedom / rng.chisquare(spread.freedom, resamples))
    first, second = (
        np.median(rng.standard_normal((resamples, count)), axis=1) for count in repeats
    )
    return scale * (first - second)


def pooled_spreads(scores: Iterable[tuple[Key, object, float]]) -> dict[Key, Spread]:
    """The spread of each pool (`seed_spread`), from scores with their pool and model."""
    pools: dict[Key, dict[object, list[float]]] = {}
    for pool, model, score in scores:
        pools.setdefault(pool, {}).setdefault(model, []).append(score)
    return {pool: seed_spread(models.values()) for pool, models in pools.items()}


def predictions_by_model(
    study: StudyResults,
) -> dict[tuple[str, str], dict[Model, list[Predictions]]]:
    """`(language, task)` -> the predictions of each model, of all seeds and runs."""
    found: dict[tuple[str, str], dict[Model, list[Predictions]]] = {}
    for one in study.predictions:
        model = Model(*(one.cell[axis] for axis in AXES))
        own = found.setdefault((one.cell["language"], one.task), {})
        own.setdefault(model, []).append(one)
    return found


def column_scores(study: StudyResults, column: Column) -> Frame:
    """The scores of a column in the whole study, whatever part of it is shown."""
    return select((study.whole or study).scores, **dict(zip(COLUMN, column, strict=True)))


def p_text(p: float) -> str:
    """`p = 0.012`, or `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def effect_text(one: PairedTest) -> str:
    """`d = +0.42`; `–` where all examples differ by the same."""
    return f"d = {number(one.effect, 2, sign=True) if math.isfinite(one.effect) else MISSING}"


def _mean_of_known(scores: Iterable[np.ndarray]) -> np.ndarray:
    """Means of the finite numbers of each place; missing where there are none."""
    return np.ma.masked_invalid(list(scores)).mean(axis=0).filled(np.nan)
