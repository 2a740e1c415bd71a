"""Paired bootstrap tests: would a difference between models hold on other examples and seeds?

Score differences, speed-ups and changes of length are tested in the same way. The same examples are
drawn for both sides, thousands of scores are computed from sums of sufficient statistics, and
p-values of all tests made together are corrected for each other.

The Snakefile imports this module with the declarations of tables, so scipy is imported where it is
used.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from lexigraft.randomness import generator
from lexigraft.report.example_scores import ExampleScores, Score, example_scores
from lexigraft.report.frame import AXES, COLUMN, Column, Model, Predictions, StudyResults, select

RESAMPLES = 5000  # enough for one of two hundred differences to be significant after correction
LEVEL = 0.05  # a difference with a corrected p below it is significant
_CHUNK = 5_000_000  # counts in memory at once: 40 MB

# A model's scores by (seed, run): [1 + resamples], on all examples first, then in each resample.
Scores = dict[tuple[int, int], np.ndarray]
Comparison = tuple[Model, Model, Column]  # a model, its baseline, and the scored column
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


@dataclass(frozen=True, kw_only=True)
class ScoreDifference(PairedTest):
    """A model's score minus a baseline's, on one language, task and metric."""

    model: Model
    baseline: Model
    column: Column
    baseline_score: float
    outputs: int  # number of the model's outputs, over its seeds and runs


class Spread(NamedTuple):
    """How much a score differs between seeds: a standard deviation and its degrees of freedom."""

    deviation: float
    freedom: int


def paired_test(
    first: np.ndarray,  # [1 + resamples]
    second: np.ndarray,
    single: tuple[np.ndarray, np.ndarray] | None,
    noise: np.ndarray | float = 0.0,
    *,
    examples: int,
    freedom: int = 0,
    inverse: Callable[[float], float] = float,
) -> PairedTest:
    """Test the difference of two models on the same resamples of the same examples.

    Test examples are resampled, not outputs: an example comes with all its outputs, from every run
    that drew it and every seed, of both models. Runs share examples and seeds share all of them, so
    pooling outputs as if they were independent would make the interval too narrow.

    `p` is the share of resampled differences whose distance from the observed difference is at
    least the distance of the latter from zero, counting itself once. The interval has the
    percentiles 2.5 and 97.5.

    Parameters
    ----------
    first, second
        The scores of both models: on all examples first, then in each resample.
    single
        The scores of single examples on both sides; None if only groups of them are known.
    noise
        [resamples], added to the resampled differences: the effect of other seeds (`seed_noise`).
    inverse
        The inverse of the transformation of scores, such as `math.exp` for logarithms.
    """
    differences = first - second
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
        effect=effect_size(*single) if single else math.nan,
        examples=examples,
        freedom=freedom,
    )


def correct_together(tests: Mapping[Key, Test]) -> dict[Key, Test]:
    """Correct known p-values for multiple comparisons (Benjamini and Hochberg 1995).

    Of all differences with a corrected p below 0.05, at most one in twenty is expected to be due to
    chance.
    """
    from scipy.stats import false_discovery_control

    known = {key: test.p for key, test in tests.items() if not math.isnan(test.p)}
    adjusted = false_discovery_control([*known.values()]) if known else ()
    corrected = dict(zip(known, map(float, adjusted), strict=True))
    return {
        key: replace(test, corrected=corrected.get(key, math.nan)) for key, test in tests.items()
    }


def resampled_scores(
    systems: Mapping[Key, tuple[np.ndarray, Score]], examples: int, *names: str
) -> dict[Key, np.ndarray]:
    """Scores [1 + resamples] of each system on all examples, then in each resample.

    All systems are scored on the same resamples. The draw of examples depends only on `names`, so
    that the same study yields the same numbers.

    A system has sufficient statistics [examples, statistics], with zeros for an example that it
    did not draw, and their score. If none of its examples is drawn, it gets the score of zeros.
    """
    parts: dict[Key, list[np.ndarray]] = {key: [] for key in systems}
    rng = generator("report", "bootstrap", *names)
    for counts in _resampled_counts(examples, rng) if systems else ():
        for key, (example_statistics, score) in systems.items():
            parts[key].append(score(counts @ example_statistics))
    return {key: np.concatenate(scores) for key, scores in parts.items()}


def resample(examples: int, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """How often each example is drawn in each resample: counts [resamples, examples].

    A resample has as many examples as the original, drawn with replacement (Koehn, 2004).
    """
    drawn = rng.integers(examples, size=(resamples, examples))
    # All resamples are counted at once: each has its own range of numbers.
    drawn += examples * np.arange(resamples)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=resamples * examples)
    return counts.reshape(resamples, examples).astype(np.float64)


def _resampled_counts(examples: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Counts of each example once, then those of all resamples, in parts that fit in memory."""
    yield np.ones((1, examples))
    size = max(1, _CHUNK // examples)
    for begin in range(0, RESAMPLES, size):
        yield resample(examples, min(size, RESAMPLES - begin), rng)


def mean_over_seeds(scores: Scores) -> np.ndarray:
    """Scores [n] averaged over runs within each seed, then over seeds, as in all tables.

    NaN scores, of runs without a drawn example, are left out.
    """
    by_seed: dict[int, list[np.ndarray]] = {}
    for (seed, _), values in scores.items():
        by_seed.setdefault(seed, []).append(values)
    return np.mean([_mean_of_finite(runs) for runs in by_seed.values()], axis=0)


def shared_runs(first: Scores, second: Scores) -> tuple[Scores, Scores]:
    """The scores of both models without the runs that only one of them has."""
    shared = {run for _, run in first} & {run for _, run in second}
    ours, theirs = (
        {key: values for key, values in scores.items() if key[1] in shared}
        for scores in (first, second)
    )
    return ours, theirs


def effect_size(first: np.ndarray, second: np.ndarray) -> float:
    """Cohen's d of paired examples: the mean of their differences over its standard deviation.

    Unlike the significance, it does not grow with the number of examples: 0.2 is called small, 0.5
    medium, 0.8 large (Cohen 1988). Missing if all examples have the same difference.

    The arguments are the scores of single examples: [examples], missing if no run drew it.
    """
    differences = first - second
    differences = differences[np.isfinite(differences)]
    if len(differences) < 2:
        return math.nan
    deviation = float(differences.std(ddof=1))
    # As in `paired_test`: differences in the last bits are not a spread.
    return float(differences.mean()) / deviation if deviation > 1e-9 else math.nan


def pooled_spread(models: Iterable[Sequence[float]]) -> Spread:
    """The deviation over seeds, pooled over models as in analysis of variance.

    Two or three seeds are too few to estimate a spread. Pooling all models of a column yields a
    better estimate, which also applies to models with a single seed. `models` has the scores of the
    seeds of each model.
    """
    squares, freedom = 0.0, 0
    for scores in models:
        mean = sum(scores) / len(scores)
        squares += sum((value - mean) ** 2 for value in scores)
        freedom += len(scores) - 1
    return Spread(math.sqrt(squares / freedom) if freedom else 0.0, freedom)


def spreads_of_pools(scores: Iterable[tuple[Key, object, float]]) -> dict[Key, Spread]:
    """The spread of each pool, from triples of pool, model and score."""
    pools: dict[Key, dict[object, list[float]]] = {}
    for pool, model, score in scores:
        pools.setdefault(pool, {}).setdefault(model, []).append(score)
    return {pool: pooled_spread(models.values()) for pool, models in pools.items()}


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


def column_scores(study: StudyResults, column: Column):
    """The scores of a column in the whole study, not only in the part that is shown."""
    return select((study.whole or study).scores, **dict(zip(COLUMN, column, strict=True)))


def predictions_by_model(
    study: StudyResults,
) -> dict[tuple[str, str], dict[Model, list[Predictions]]]:
    """`(language, task)` -> the predictions of each model, for all seeds and runs."""
    runs: dict[tuple[str, str], dict[Model, list[Predictions]]] = {}
    for run in study.predictions:
        model = Model(*(run.cell[axis] for axis in AXES))
        by_model = runs.setdefault((run.cell["language"], run.task), {})
        by_model.setdefault(model, []).append(run)
    return runs


def _mean_of_finite(scores: Iterable[np.ndarray]) -> np.ndarray:
    """Means of the finite numbers at each position; missing if there are none."""
    return np.ma.masked_invalid(list(scores)).mean(axis=0).filled(np.nan)


@dataclass(frozen=True)
class ModelScores:
    """Scores of a model's runs on the examples of a column, by seed and run.

    For a mean over models, the index of a model takes the place of the seed.
    """

    ids: dict[tuple[int, int], list[str]]  # names of the examples
    scores: Scores  # [1 + resamples]
    single: Scores  # [examples]: the score of each single example
    seeds: dict[int, int]  # seed or index -> number of seeds


def score_differences(
    study: StudyResults,
    comparisons: Iterable[Comparison],
    means: Mapping[tuple[Model, Column], Sequence[Model]] | None = None,
) -> list[ScoreDifference]:
    """Test the differences between models and baselines whose outputs were both recorded.

    All comparisons of a column use the same resamples of its examples, and all returned p-values
    are corrected for each other.

    The variation over seeds is estimated from the trained models of the whole study that have
    several seeds (see `SeedSpreads`), so that a comparison does not depend on which others are made
    together with it, apart from the correction.

    `means` maps a model in `comparisons` and its column to trained models of one source model whose
    mean it represents. A mean is left out if one of these models has no outputs.
    """
    means = means or {}
    pairs_of: dict[Column, list[tuple[Model, Model]]] = {}
    for model, baseline, column in dict.fromkeys(comparisons):
        pairs_of.setdefault(column, []).append((model, baseline))
    runs = predictions_by_model(study)
    differences: dict[Comparison, ScoreDifference] = {}
    for column, pairs in pairs_of.items():
        members = {model: means.get((model, column), (model,)) for pair in pairs for model in pair}
        single = dict.fromkeys(member for several in members.values() for member in several)
        of_models = runs.get(column[:2], {})
        scored = scores_of_models(study, {m: of_models.get(m, []) for m in single}, column)
        for model, several in members.items():
            if (model, column) in means and all(member in scored for member in several):
                scored[model] = _mean_of_models([scored[member] for member in several])
        spreads = seed_spreads(study, column)
        for model, baseline in pairs:
            difference = _difference(model, baseline, column, scored, spreads)
            if difference is not None:
                differences[model, baseline, column] = difference
    return list(correct_together(differences).values())


def scores_of_models(
    study: StudyResults, predictions: Mapping[Model, list[Predictions]], column: Column
) -> dict[Model, ModelScores]:
    """Scores of each model with recorded outputs, all on the same resamples."""
    _, task, metric = column
    kind = study.task_kind(task)
    by_run: dict[Model, dict[tuple[int, int], ExampleScores]] = {}
    for model, runs in predictions.items():
        for run in runs:
            examples = _examples_of_run(study, run, kind, metric)
            if examples is not None:
                by_run.setdefault(model, {})[run.cell["seed"], run.run] = examples
    # Example -> its row in the statistics of all models, so that the same examples are drawn.
    names = {
        name for runs in by_run.values() for examples in runs.values() for name in examples.ids
    }
    rows = {name: row for row, name in enumerate(sorted(names))}
    systems: dict[tuple[Model, tuple[int, int]], tuple[np.ndarray, Score]] = {}
    single: dict[Model, Scores] = {}
    for model, runs_of_model in by_run.items():
        # All runs of a model are scored alike: a task has the same tests in each.
        score = next(iter(runs_of_model.values())).score
        single[model] = {}
        for key, examples in runs_of_model.items():
            own_rows = [rows[name] for name in examples.ids]
            all_statistics = np.zeros((len(rows), examples.statistics.shape[1]))
            all_statistics[own_rows] = examples.statistics
            systems[model, key] = all_statistics, score
            single[model][key] = np.full(len(rows), math.nan)
            single[model][key][own_rows] = examples.single
    scores = resampled_scores(systems, len(rows), *column)
    return {
        model: ModelScores(
            ids={key: examples.ids for key, examples in runs_of_model.items()},
            scores={key: scores[model, key] for key in runs_of_model},
            single=single[model],
            seeds={seed: 1 for seed, _ in runs_of_model},
        )
        for model, runs_of_model in by_run.items()
    }


# A source model and whether rows are drawn at random; or an untrained model.
Pool = tuple[str, bool] | Model


@dataclass(frozen=True)
class SeedSpreads:
    """The variation of a column's scores between seeds, by pool of models.

    Trained models of a source model are pooled. Initializers that draw rows at random have a
    separate pool, since the seeds of all others only order the text: a bad random start says
    nothing about these. If no model of a pool has several seeds, the spread of the other pool is
    used. Some untrained models have random rows and others do not vary at all, so each has its own
    pool.
    """

    spreads: Mapping[Pool, Spread]
    random: frozenset[str]  # the initializers that draw at random

    def pool(self, model: Model) -> Pool:
        """The pool of a model."""
        if model.strategy == "none":
            return model
        pool = (model.source, model.initializer in self.random)
        counterpart = (model.source, not pool[1])
        return counterpart if self[counterpart].freedom and not self[pool].freedom else pool

    def __getitem__(self, pool: Pool) -> Spread:
        return self.spreads.get(pool, Spread(0.0, 0))


def seed_spreads(study: StudyResults, column: Column) -> SeedSpreads:
    """The variation of a column's scores between seeds in the whole study.

    An alias has no spread: it exists only in an item, and draws nothing.
    """
    by_seed = column_scores(study, column).groupby([*AXES, "seed"], sort=False)["value"].mean()
    empty = SeedSpreads({}, study.random_initializers)
    scores = [(Model(*map(str, names)), float(value)) for (*names, _), value in by_seed.items()]
    spreads = spreads_of_pools((empty.pool(model), model, value) for model, value in scores)
    return replace(empty, spreads=spreads)


def _mean_of_models(models: list[ModelScores]) -> ModelScores:
    """The mean over models, which may have different numbers of seeds."""
    mean = ModelScores({}, {}, {}, {})
    for index, model in enumerate(models):
        for run in dict.fromkeys(run for _, run in model.scores):
            keys = [key for key in model.scores if key[1] == run]
            mean.ids[index, run] = [name for key in keys for name in model.ids[key]]
            mean.scores[index, run] = mean_over_seeds({key: model.scores[key] for key in keys})
            mean.single[index, run] = mean_over_seeds({key: model.single[key] for key in keys})
        mean.seeds[index] = len(model.seeds)
    return mean


def _difference(
    model: Model,
    baseline: Model,
    column: Column,
    scored: Mapping[Model, ModelScores],
    spreads: SeedSpreads,
) -> ScoreDifference | None:
    """One comparison; None if one of the two has no scores, or they have no run in common."""
    if model not in scored or baseline not in scored:
        return None
    ours, theirs = scored[model], scored[baseline]
    first, second = shared_runs(ours.scores, theirs.scores)
    if not first:
        return None
    # The noise of two means with the same spread is drawn once.
    seeds: dict[Pool, list[float]] = {}
    for compared, scores in ((model, first), (baseline, second)):
        counts = [
            scored[compared].seeds[seed] for seed in dict.fromkeys(seed for seed, _ in scores)
        ]
        # The variance of a mean over `n` seeds is 1/n of that of one seed, so that of a mean of
        # means equals that of a mean over `effective` seeds.
        effective = len(counts) ** 2 / sum(1 / count for count in counts)
        seeds.setdefault(spreads.pool(compared), []).append(effective)
    names = (name for compared in (model, baseline) for name in compared.axes().values())
    rng = generator("report", "seeds", *column, *names)
    noise = sum(seed_noise(spreads[pool], counts, RESAMPLES, rng) for pool, counts in seeds.items())
    baseline_scores = mean_over_seeds(second)
    # Seeds do not weigh equally here: an example has the mean of all outputs.
    ours_single, theirs_single = (
        _mean_of_finite(scores.values()) for scores in shared_runs(ours.single, theirs.single)
    )
    test = paired_test(
        mean_over_seeds(first),
        baseline_scores,
        (ours_single, theirs_single),
        noise,
        examples=len({name for key in second for name in theirs.ids[key]}),
        freedom=spreads[spreads.pool(model)].freedom,
    )
    return ScoreDifference(
        **vars(test),
        model=model,
        baseline=baseline,
        column=column,
        baseline_score=float(baseline_scores[0]),
        outputs=sum(len(ours.ids[key]) for key in first),
    )


def _examples_of_run(
    study: StudyResults, run: Predictions, kind: str, metric: str
) -> ExampleScores | None:
    """The contribution of each example of a run to a metric, read once for all tables.

    Also None if the examples do not reproduce the score of the record, unless it is a learned
    metric with its own record: a test of a number that a table does not show would be misleading.
    """
    key = (run.path, metric)
    if key not in study.cache:
        examples = example_scores(run.rows(), kind, metric, run.details)
        recorded = run.metrics.get(metric)
        if examples and recorded is not None:
            total = float(examples.score(examples.statistics.sum(axis=0)))
            if not math.isclose(total, recorded, rel_tol=1e-4, abs_tol=1e-6):
                examples = None
        study.cache[key] = examples
    return study.cache[key]
