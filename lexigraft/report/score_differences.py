"""Which differences between the scores of models would hold on other examples and seeds."""

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

Comparison = tuple[Model, Model, Column]  # a model, its baseline, and what both are scored on


@dataclass(frozen=True, kw_only=True)
class ScoreDifference(PairedTest):
    """A model's score less a baseline's, on one language, task and metric."""

    model: Model
    baseline: Model
    column: Column
    baseline_score: float
    outputs: int  # that the model wrote, over its seeds and runs


@dataclass(frozen=True)
class ModelScores:
    """Scores of a model's runs on the examples of a column, by seed and run.

    A mean over models has one of them in the place of each seed, by its number.
    """

    ids: dict[tuple[int, int], list[str]]  # names of the examples
    scores: Scores  # [1 + resamples]
    alone: Scores  # [examples]: the score of each by itself
    seeds: dict[int, int]  # how many seeds each number stands for


def score_differences(
    study: StudyResults,
    comparisons: Iterable[Comparison],
    means: Mapping[tuple[Model, Column], Sequence[Model]] | None = None,
) -> list[ScoreDifference]:
    """Test the differences between models and baselines whose outputs were both recorded.

    All comparisons of a column are made on the same resamples of its examples, and all that are
    returned are corrected for each other.

    The variation over seeds is estimated from the trained models of the whole study that have
    several seeds (see `SeedSpreads`), so that the result of a comparison does not depend on which
    others are made beside it.

    `means`: names in `comparisons` that stand, in their column, for the mean over trained models of
    one source model, and these models. A mean is left out where one of them has no outputs.
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
    """Scores of each model whose outputs were recorded, all on the same resamples."""
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


# A source model, and whether rows are drawn at random; or a model that is not trained.
Pool = tuple[str, bool] | Model


@dataclass(frozen=True)
class SeedSpreads:
    """How much a column's scores differ between seeds, by what that is pooled over.

    Trained models of a source model are pooled, but initializers that draw their rows apart from
    all others, whose seeds only order the text: rows that start badly by chance say nothing about
    these. Where no model of a kind has several seeds, it borrows the spread of the other kind. Of
    untrained models some draw their rows and others do not vary at all, so each has its own.
    """

    spreads: Mapping[Pool, Spread]
    drawn: frozenset[str]  # the initializers that draw at random

    def pool(self, model: Model) -> Pool:
        """What the spread of a model is pooled over."""
        if model.strategy == "none":
            return model
        own = (model.source, model.initializer in self.drawn)
        other = (model.source, not own[1])
        return other if self[other].freedom and not self[own].freedom else own

    def __getitem__(self, pool: Pool) -> Spread:
        return self.spreads.get(pool, Spread(0.0, 0))


def seed_spreads(study: StudyResults, column: Column) -> SeedSpreads:
    """How much a column's scores differ between seeds, in the whole study.

    An alias has no spread: it is of an item alone, and draws nothing.
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
    """What each example of a run adds to a metric, read once for all tables.

    None, too, where it does not add up to the score of the record, unless a learned metric has a
    record of its own: a test of another number than the one that a table shows would mislead.
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
    """The mean over models, whatever their numbers of seeds."""
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
    """One comparison; None where one has no scores, or the two have no run in common."""
    if model not in scored or baseline not in scored:
        return None
    ours, theirs = scored[model], scored[baseline]
    first, second = shared_runs(ours.scores, theirs.scores)
    if not first:
        return None
    # Two means with one spread differ by one draw of it.
    seeds: dict[Pool, list[float]] = {}
    for one, scores in ((model, first), (baseline, second)):
        counts = [scored[one].seeds[key] for key in means_by_seed(scores)]
        # The variance of a mean over `n` seeds is 1/n of one seed's: that of a mean of means is the
        # variance of a mean over so many seeds.
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
