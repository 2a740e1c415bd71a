"""Test which score differences between models would hold on other examples and seeds."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lexigraft.randomness import generator
from lexigraft.report.example_scores import ExampleScores, example_scores
from lexigraft.report.models import AXES, Column, Model
from lexigraft.report.paired_tests import (
    RESAMPLES,
    PairedTest,
    Score,
    Scores,
    Spread,
    System,
    column_scores,
    correct_together,
    mean_over_seeds,
    means_by_seed,
    paired_test,
    pooled_spreads,
    predictions_by_model,
    resampled_scores,
    seed_noise,
    shared_runs,
)
from lexigraft.report.study import Predictions, StudyResults

Comparison = tuple[Model, Model, Column]  # a model, its baseline, and the scored column


@dataclass(frozen=True, kw_only=True)
class ScoreDifference(PairedTest):
    """A model's score minus a baseline's, on one language, task and metric."""

    model: Model
    baseline: Model
    column: Column
    baseline_score: float
    outputs: int  # number of the model's outputs, over its seeds and runs


@dataclass(frozen=True)
class ModelScores:
    """Scores of a model's runs on the examples of a column, by seed and run.

    For a mean over models, the index of a model takes the place of the seed.
    """

    ids: dict[tuple[int, int], list[str]]  # names of the examples
    scores: Scores  # [1 + resamples]
    alone: Scores  # [examples]: the score of each single example
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
    predictions = predictions_by_model(study)
    found: dict[Comparison, ScoreDifference] = {}
    for column, pairs in pairs_of.items():
        members = {model: means.get((model, column), (model,)) for pair in pairs for model in pair}
        single = dict.fromkeys(one for several in members.values() for one in several)
        own = predictions.get(column[:2], {})
        scored = scores_of_models(study, {model: own.get(model, []) for model in single}, column)
        for model, several in members.items():
            if (model, column) in means and all(one in scored for one in several):
                scored[model] = _mean([scored[one] for one in several])
        spreads = seed_spreads(study, column)
        for model, baseline in pairs:
            difference = _difference(model, baseline, column, scored, spreads)
            if difference is not None:
                found[model, baseline, column] = difference
    return list(correct_together(found).values())


def scores_of_models(
    study: StudyResults, predictions: Mapping[Model, list[Predictions]], column: Column
) -> dict[Model, ModelScores]:
    """Scores of each model with recorded outputs, all on the same resamples."""
    _, task, metric = column
    kind = study.kind(task)
    read: dict[Model, dict[tuple[int, int], ExampleScores]] = {}
    for model, runs in predictions.items():
        for one in runs:
            own = _read(study, one, kind, metric)
            if own is not None:
                read.setdefault(model, {})[one.cell["seed"], one.run] = own
    names = {name for found in read.values() for own in found.values() for name in own.ids}
    # Example -> its row in the statistics of all models, so that the same examples are drawn.
    places = {name: at for at, name in enumerate(sorted(names))}
    systems: dict[Model, tuple[System, Score]] = {}
    alone: dict[Model, Scores] = {}
    for model, found in read.items():
        system: System = {}
        alone[model] = {}
        for key, own in found.items():
            here = [places[name] for name in own.ids]
            system[key] = np.zeros((len(places), own.statistics.shape[1]))
            system[key][here] = own.statistics
            alone[model][key] = np.full(len(places), math.nan)
            alone[model][key][here] = own.alone
        systems[model] = system, next(iter(found.values())).score
    scores = resampled_scores(systems, len(places), *column)
    return {
        model: ModelScores(
            {key: own.ids for key, own in found.items()},
            scores[model],
            alone[model],
            {seed: 1 for seed, _ in found},
        )
        for model, found in read.items()
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
    drawn: frozenset[str]  # the initializers that draw at random

    def pool(self, model: Model) -> Pool:
        """The pool of a model."""
        if model.strategy == "none":
            return model
        own = (model.source, model.initializer in self.drawn)
        other = (model.source, not own[1])
        return other if self[other].freedom and not self[own].freedom else own

    def __getitem__(self, pool: Pool) -> Spread:
        return self.spreads.get(pool, Spread(0.0, 0))


def seed_spreads(study: StudyResults, column: Column) -> SeedSpreads:
    """The variation of a column's scores between seeds in the whole study.

    An alias has no spread: it exists only in an item, and draws nothing.
    """
    by_seed = column_scores(study, column).groupby([*AXES, "seed"], sort=False)["value"].mean()
    each = SeedSpreads({}, study.drawn_initializers)
    pooled = pooled_spreads(
        (each.pool(model), model, float(value))
        for (*names, _), value in by_seed.items()
        for model in (Model(*map(str, names)),)
    )
    return replace(each, spreads=pooled)


def _read(study: StudyResults, one: Predictions, kind: str, metric: str) -> ExampleScores | None:
    """The contribution of each example of a run to a metric, read once for all tables.

    Also None if the examples do not reproduce the score of the record, unless it is a learned
    metric with its own record: a test of a number that a table does not show would be misleading.
    """
    key = (one.path, metric)
    if key not in study.read:
        found = example_scores(one.rows(), kind, metric, one.details)
        recorded = one.metrics.get(metric)
        if found and recorded is not None:
            total = float(found.score(found.statistics.sum(axis=0)))
            if not math.isclose(total, recorded, rel_tol=1e-4, abs_tol=1e-6):
                found = None
        study.read[key] = found
    return study.read[key]


def _mean(models: list[ModelScores]) -> ModelScores:
    """The mean over models, which may have different numbers of seeds."""
    mean = ModelScores({}, {}, {}, {})
    for place, one in enumerate(models):
        for run in dict.fromkeys(run for _, run in one.scores):
            keys = [key for key in one.scores if key[1] == run]
            mean.ids[place, run] = [name for key in keys for name in one.ids[key]]
            mean.scores[place, run] = mean_over_seeds({key: one.scores[key] for key in keys})
            mean.alone[place, run] = mean_over_seeds({key: one.alone[key] for key in keys})
        mean.seeds[place] = len(one.seeds)
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
    for one, scores in ((model, first), (baseline, second)):
        counts = [scored[one].seeds[key] for key in means_by_seed(scores)]
        # The variance of a mean over `n` seeds is 1/n of that of one seed, so that of a mean of
        # means equals that of a mean over `effective` seeds.
        effective = len(counts) ** 2 / sum(1 / count for count in counts)
        seeds.setdefault(spreads.pool(one), []).append(effective)
    names = (name for one in (model, baseline) for name in one.keys().values())
    rng = generator("report", "seeds", *column, *names)
    noise = sum(seed_noise(spreads[key], counts, RESAMPLES, rng) for key, counts in seeds.items())
    test = paired_test(
        first,
        second,
        (ours.alone, theirs.alone),
        noise,
        examples=len({name for key in second for name in theirs.ids[key]}),
        freedom=spreads[spreads.pool(model)].freedom,
    )
    return ScoreDifference(
        **vars(test),
        model=model,
        baseline=baseline,
        column=column,
        baseline_score=float(mean_over_seeds(second)[0]),
        outputs=sum(len(ours.ids[key]) for key in first),
    )
