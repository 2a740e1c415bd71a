"""Paired bootstrap tests: would a difference between two models hold on other examples and seeds?

The same examples are drawn for all models, and thousands of scores are computed from sums of
sufficient statistics. scipy is imported where it is used: the Snakefile imports this module.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np

from lexigraft.evaluation.task_kinds import ENGLISH, WITH_ENGLISH, kinds, task_kind
from lexigraft.randomness import generator
from lexigraft.report.frame import AXES, COLUMN, Column, Model, Predictions, StudyResults, select

RESAMPLES = 5000  # enough for one of two hundred differences to be significant after correction
LEVEL = 0.05  # a difference with a corrected p below it is significant
_CHUNK = 5_000_000  # counts in memory at once: 40 MB

Score = Callable[[np.ndarray], np.ndarray]  # summed statistics [..., statistics] -> scores [...]
Row = dict[str, Any]


class ExampleScores(NamedTuple):
    """Statistics of the examples of one run."""

    ids: list[str]  # names of the examples
    statistics: np.ndarray  # [examples, statistics]: summed over examples, then scored
    score: Score  # from summed statistics to the metric's score
    single: np.ndarray  # [examples]: the score of each single example


Run = tuple[int, int]  # seed and run of a model
Comparison = tuple[Model, Model, Column]  # a model, its baseline, and the scored column
Pool = tuple[str, bool] | Model  # see `SeedSpreads`
Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class ScoreDifference:
    """A model's score minus a baseline's, and whether it would hold on other examples."""

    model: Model
    baseline: Model
    column: Column
    baseline_score: float
    value: float
    low: float  # bounds of its 95 % interval
    high: float
    p: float  # two-sided, for no difference
    effect: float  # Cohen's d over examples
    examples: int  # number of examples that both sides have
    outputs: int  # number of the model's outputs, over its seeds and runs
    freedom: int  # degrees of freedom of the spread over seeds; 0 if no model has several
    corrected: float = math.nan  # `p`, corrected for all tests made together

    @property
    def stars(self) -> str:
        """`*` if the corrected p is below 0.05, `**` if it is below 0.01."""
        return "**" if self.corrected < 0.01 else "*" if self.corrected < LEVEL else ""

    def columns(self) -> dict[str, float | int]:
        """Columns of a CSV file."""
        return {
            "change_low": self.low,
            "change_high": self.high,
            "p": self.p,
            "p_corrected": self.corrected,
            "effect_size": self.effect,
            "tested_examples": self.examples,
            "seed_freedom": self.freedom,
        }


class RunScores(NamedTuple):
    """The scores of one run of a model on the examples of a column."""

    ids: list[str]  # names of its examples
    scores: np.ndarray  # [1 + resamples]: on all examples first, then in each resample
    single: np.ndarray  # [examples of all models]: of each example; missing if not in the run


class Spread(NamedTuple):
    """How much a score differs between seeds: a standard deviation and its degrees of freedom."""

    deviation: float
    freedom: int


def score_differences(
    study: StudyResults, comparisons: Iterable[Comparison]
) -> list[ScoreDifference]:
    """Test the differences between models and baselines whose outputs were both recorded.

    All comparisons of a column use the same resamples of its examples, and all p-values are
    corrected for each other (Benjamini and Hochberg 1995). The variation over seeds is that of the
    whole study, so a comparison does not depend on the others, apart from the correction.
    """
    from scipy.stats import false_discovery_control

    pairs_of: dict[Column, list[tuple[Model, Model]]] = {}
    for model, baseline, column in dict.fromkeys(comparisons):
        pairs_of.setdefault(column, []).append((model, baseline))
    differences = []
    for column, pairs in pairs_of.items():
        scored = scores_of_models(study, dict.fromkeys(chain(*pairs)), column)
        spreads = SeedSpreads(study, column)
        for model, baseline in pairs:
            ours, theirs = shared_runs(scored.get(model, {}), scored.get(baseline, {}))
            if ours:
                differences.append(_difference(model, baseline, column, ours, theirs, spreads))
    adjusted = false_discovery_control([test.p for test in differences]) if differences else ()
    return [
        replace(test, corrected=float(p)) for test, p in zip(differences, adjusted, strict=True)
    ]


def _difference(
    model: Model,
    baseline: Model,
    column: Column,
    ours: dict[Run, RunScores],
    theirs: dict[Run, RunScores],
    spreads: "SeedSpreads",
) -> ScoreDifference:
    first, second = (
        mean_over_seeds({key: run.scores for key, run in runs.items()}) for runs in (ours, theirs)
    )
    # The noise of two means with the same spread is drawn once.
    seeds: dict[Pool, list[int]] = {}
    for compared, runs in ((model, ours), (baseline, theirs)):
        seeds.setdefault(spreads.pool(compared), []).append(len({seed for seed, _ in runs}))
    names = (name for compared in (model, baseline) for name in compared.axes().values())
    rng = generator("report", "seeds", *column, *names)
    noise = sum(seed_noise(spreads[pool], counts, RESAMPLES, rng) for pool, counts in seeds.items())
    value, low, high, p = paired_test(first, second, noise)
    # Seeds do not weigh equally here: an example has the mean of all outputs.
    single = (_mean_of_finite([run.single for run in runs.values()]) for runs in (ours, theirs))
    return ScoreDifference(
        model=model,
        baseline=baseline,
        column=column,
        baseline_score=float(second[0]),
        value=value,
        low=low,
        high=high,
        p=p,
        effect=effect_size(*single),
        examples=len({name for run in theirs.values() for name in run.ids}),
        outputs=sum(len(run.ids) for run in ours.values()),
        freedom=spreads[spreads.pool(model)].freedom,
    )


def paired_test(
    first: np.ndarray, second: np.ndarray, noise: np.ndarray | float = 0.0
) -> tuple[float, float, float, float]:
    """The difference of two models, the bounds of its 95 % interval, and its p.

    Test examples are resampled, not outputs: an example comes with all its outputs, from every run
    and seed of both models. Pooling outputs as if they were independent would make the interval too
    narrow. p is the share of resampled differences whose distance from the observed difference is
    at least the distance of the latter from zero, counting itself once.

    Parameters
    ----------
    first, second
        [1 + resamples]: scores on all examples first, then in each resample of the same examples.
    noise
        [resamples], added to the resampled differences: the effect of other seeds (`seed_noise`).
    """
    differences = first - second
    value, drawn = float(differences[0]), differences[1:] + noise
    drawn = drawn[np.isfinite(drawn)]
    low, high = np.percentile(drawn, (2.5, 97.5))
    # Sums of the same numbers in different orders differ in their last bits.
    extreme = np.abs(drawn - value) >= abs(value) - 1e-9
    p = (1 + np.count_nonzero(extreme)) / (1 + len(drawn))
    return value, float(low), float(high), float(p)


def scores_of_models(
    study: StudyResults, models: Iterable[Model], column: Column
) -> dict[Model, dict[Run, RunScores]]:
    """Scores of each model with recorded outputs by seed and run, all on the same resamples.

    The draw of examples depends only on the column and the names of all examples.
    """
    language, task, metric = column
    wanted, kind = {*models}, study.task_kind(task)
    by_run: dict[tuple[Model, Run], ExampleScores] = {}
    for run in study.predictions_of.get((language, task), ()):
        model = Model(*(run.cell[axis] for axis in AXES))
        if model in wanted and (examples := _examples_of_run(study, run, kind, metric)):
            by_run[model, (run.cell["seed"], run.run)] = examples
    names = sorted({name for examples in by_run.values() for name in examples.ids})
    rows = {name: row for row, name in enumerate(names)}
    systems: dict[tuple[Model, Run], tuple[np.ndarray, Score]] = {}
    for key, examples in by_run.items():
        statistics = np.zeros((len(rows), examples.statistics.shape[1]))
        statistics[[rows[name] for name in examples.ids]] = examples.statistics
        systems[key] = statistics, examples.score
    resampled = resampled_scores(systems, len(rows), *column)
    scored: dict[Model, dict[Run, RunScores]] = {}
    for (model, seed_and_run), examples in by_run.items():
        single = np.full(len(rows), math.nan)
        single[[rows[name] for name in examples.ids]] = examples.single
        scores = RunScores(examples.ids, resampled[model, seed_and_run], single)
        scored.setdefault(model, {})[seed_and_run] = scores
    return scored


def resampled_scores(
    systems: Mapping[Value, tuple[np.ndarray, Score]], examples: int, *names: str
) -> dict[Value, np.ndarray]:
    """Scores [1 + resamples] of each system on all examples, then in each resample.

    A system has sufficient statistics [examples, statistics], with zeros for an example that it
    did not draw, and their score. `names` seed the draw of examples, the same for all systems.
    """
    rng = generator("report", "bootstrap", *names)
    size = max(1, _CHUNK // max(examples, 1))
    chunks = (
        resample(examples, min(size, RESAMPLES - begin), rng)
        for begin in (range(0, RESAMPLES, size) if systems else ())
    )
    parts: dict[Value, list[np.ndarray]] = {key: [] for key in systems}
    for counts in chain([np.ones((1, examples))], chunks):
        for key, (statistics, score) in systems.items():
            parts[key].append(score(counts @ statistics))
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


def mean_over_seeds(scores: Mapping[Run, np.ndarray]) -> np.ndarray:
    """Scores [n] averaged over runs within each seed, then over seeds, as in all tables.

    NaN scores, of runs without a drawn example, are left out.
    """
    by_seed: dict[int, list[np.ndarray]] = {}
    for (seed, _), values in scores.items():
        by_seed.setdefault(seed, []).append(values)
    return np.mean([_mean_of_finite(runs) for runs in by_seed.values()], axis=0)


def _mean_of_finite(scores: Sequence[np.ndarray]) -> np.ndarray:
    return np.ma.masked_invalid(list(scores)).mean(axis=0).filled(np.nan)


def shared_runs(
    first: Mapping[Run, Value], second: Mapping[Run, Value]
) -> tuple[dict[Run, Value], dict[Run, Value]]:
    """The runs of two models without those that only one of them has."""
    shared = {run for _, run in first} & {run for _, run in second}
    ours, theirs = (
        {key: value for key, value in runs.items() if key[1] in shared} for runs in (first, second)
    )
    return ours, theirs


def effect_size(first: np.ndarray, second: np.ndarray) -> float:
    """Cohen's d of paired scores [examples]: the mean difference over its standard deviation.

    Missing if all examples have the same difference, or fewer than two are in both.
    """
    differences = first - second
    differences = differences[np.isfinite(differences)]
    deviation = float(differences.std(ddof=1)) if len(differences) > 1 else 0.0
    # As in `paired_test`: differences in the last bits are not a spread.
    return float(differences.mean()) / deviation if deviation > 1e-9 else math.nan


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


class SeedSpreads:
    """The variation of a column's scores between seeds in the whole study, by pool of models.

    Trained models of a source model are pooled. Initializers that draw rows at random have a
    separate pool, since the seeds of all others only order the text: a bad random start says
    nothing about these. If no model of a pool has several seeds, the spread of the other pool is
    used. Some untrained models have random rows and others do not vary at all, so each has its own
    pool. Aliases are not counted again.
    """

    def __init__(self, study: StudyResults, column: Column):
        fits = (study.whole or study).examples  # initializers that draw have a fit per seed
        self._random = frozenset(name for *_, name, seed in fits if seed is not None)
        scores = select((study.whole or study).scores, **dict(zip(COLUMN, column, strict=True)))
        by_seed = scores.groupby([*AXES, "seed"], sort=False)["value"].mean()
        pools: dict[Pool, dict[Model, list[float]]] = {}
        for (*names, _), value in by_seed.items():
            model = Model(*map(str, names))
            pool = self._own_pool(model)
            pools.setdefault(pool, {}).setdefault(model, []).append(float(value))
        self._spreads = {pool: pooled_spread(models.values()) for pool, models in pools.items()}

    def _own_pool(self, model: Model) -> Pool:
        return (
            model if model.strategy == "none" else (model.source, model.initializer in self._random)
        )

    def pool(self, model: Model) -> Pool:
        """The pool whose spread is that of a model."""
        pool = self._own_pool(model)
        if isinstance(pool, Model) or self[pool].freedom:
            return pool
        counterpart = (pool[0], not pool[1])
        return counterpart if self[counterpart].freedom else pool

    def __getitem__(self, pool: Pool) -> Spread:
        return self._spreads.get(pool, Spread(0.0, 0))


def pooled_spread(models: Iterable[Sequence[float]]) -> Spread:
    """The deviation over the seeds of each model, pooled as in analysis of variance.

    Two or three seeds are too few to estimate a spread, and a model may have a single one.
    """
    squares, freedom = 0.0, 0
    for scores in models:
        mean = sum(scores) / len(scores)
        squares += sum((value - mean) ** 2 for value in scores)
        freedom += len(scores) - 1
    return Spread(math.sqrt(squares / freedom) if freedom else 0.0, freedom)


def seed_noise(
    spread: Spread, seeds: Iterable[int], resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """The effect of other seeds on a difference of means over `seeds`, in each resample.

    A parametric bootstrap (Efron and Tibshirani 1993, §6.5): two seeds drawn with replacement have
    only three possible means, with half the variance that they should have. So the effect of seeds
    is drawn from Student's t, with the pooled deviation and its degrees of freedom.
    """
    scale = spread.deviation * math.sqrt(sum(1 / count for count in seeds))
    if not spread.freedom or not scale:
        return np.zeros(resamples)
    return scale * rng.standard_t(spread.freedom, size=resamples)


def _examples_of_run(
    study: StudyResults, run: Predictions, kind: str, metric: str
) -> ExampleScores | None:
    """The contribution of each example of a run to a metric, read once for all tables.

    None if the examples do not reproduce the score of the record, unless it is a learned metric
    with its own record: a test of a number that a table does not show would be misleading.
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
