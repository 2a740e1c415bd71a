"""Which differences between the models of a study would hold on other examples and seeds."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lexigraft.randomness import generator
from lexigraft.report.bootstrap import (
    Difference,
    Scores,
    Spread,
    System,
    by_seed,
    compare,
    corrected,
    draws,
    effect_size,
    over_seeds,
    run_scores,
    seed_noise,
    seed_spread,
    shared_runs,
)
from lexigraft.report.example_scores import ExampleScores, example_scores
from lexigraft.report.models import Model
from lexigraft.report.study import Predictions
from lexigraft.report.study import StudyResults as Study
from lexigraft.report.table import MISSING, number

if TYPE_CHECKING:
    import numpy as np

RESAMPLES = 5000  # so that one difference among two hundred can stand out after the correction

LEVEL = 0.05  # a corrected p below it counts as shown

Column = tuple[str, str, str]  # language, task, metric
Wanted = tuple[Model, Model, Column]  # a model, what it is compared with, and on what

_AXES = ("source", "vocabulary", "initializer", "strategy")
_LEVELS = ((0.01, "**"), (LEVEL, "*"))


class Starred:
    """What was tested together with others, and its p corrected for that."""

    corrected: float

    @property
    def stars(self) -> str:
        """`*` where the corrected p is below 0.05, `**` where it is below 0.01."""
        return next((stars for level, stars in _LEVELS if self.corrected < level), "")


@dataclass(frozen=True)
class Compared(Starred):
    """One model against a baseline on one language, task and metric.

    Attributes
    ----------
    level
        The baseline's own score.
    corrected
        `found.p`, corrected for all comparisons that were made together.
    effect
        Cohen's d over examples, see `bootstrap.effect_size`.
    examples
        How many test examples both were given.
    outputs
        How many outputs the model wrote for them, over its seeds and runs.
    seeds
        Degrees of freedom of the spread over seeds; 0 where only other examples are tested.
    """

    model: Model
    baseline: Model
    column: Column
    found: Difference
    level: float
    corrected: float
    effect: float
    examples: int
    outputs: int
    seeds: int

    def numbers(self) -> dict[str, float | int]:
        """What a CSV file has of it, in full precision."""
        return {
            "baseline_score": self.level,
            "difference": self.found.value,
            "low": self.found.low,
            "high": self.found.high,
            "p": self.found.p,
            "p_corrected": self.corrected,
            "effect_size": self.effect,
            "examples": self.examples,
            "outputs": self.outputs,
            "seed_freedom": self.seeds,
            "resamples": RESAMPLES,
        }


@dataclass(frozen=True)
class _Outputs:
    """What a model's runs make of the examples of a column, by seed and run.

    Of the mean of several models: each of them is in the place of a seed, by its number.
    """

    ids: Mapping[tuple[int, int], list[str]]  # what the examples are called
    scores: Scores  # [1 + resamples]
    alone: Scores  # [examples]: the score of each by itself
    seeds: Mapping[int, int]  # how many seeds each number stands for


def differences(
    study: Study,
    wanted: Iterable[Wanted],
    means: Mapping[tuple[Model, Column], Sequence[Model]] | None = None,
) -> list[Compared]:
    """Compare models with their baselines, where both kept what they wrote.

    All comparisons of a column are made on the same resamples of its examples. Which examples a
    resample draws depends on the names of language, task and metric alone: the same study gives
    the same numbers. Those handed back are corrected for each other.

    What other seeds would change is estimated from all trained models of the whole study that
    have several, for each column and source model (see `bootstrap.seed_spread`), so that a
    comparison comes out the same whoever is compared beside it.

    Parameters
    ----------
    wanted
        Who is compared with whom, on what.
    means
        Names in `wanted` that stand, in their column, for the mean over trained models of one
        source model, and these models. A mean of which one kept no outputs is not compared.
    """
    means = means or {}
    pairs_of: dict[Column, list[tuple[Model, Model]]] = {}
    for model, baseline, column in dict.fromkeys(wanted):
        pairs_of.setdefault(column, []).append((model, baseline))
    kept: dict[tuple[Model, str, str], list[Predictions]] = {}
    for run in study.predictions:
        model = Model(*(run.cell[axis] for axis in _AXES))
        kept.setdefault((model, run.cell["language"], run.task), []).append(run)
    found: list[Compared] = []
    for column, pairs in pairs_of.items():
        named = dict.fromkeys(model for pair in pairs for model in pair)
        members = {model: means.get((model, column), (model,)) for model in named}
        alone = dict.fromkeys(own for several in members.values() for own in several)
        outputs = _outputs(study, kept, alone, column)
        for model in (model for model in named if (model, column) in means):
            if all(own in outputs for own in members[model]):
                outputs[model] = _mean([outputs[own] for own in members[model]])
        spreads = _spreads(study, column)
        for model, baseline in pairs:
            if model in outputs and baseline in outputs:
                one = _compared(model, baseline, column, outputs, spreads)
                found += [one] if one else []
    ps = corrected([one.found.p for one in found])
    return [replace(one, corrected=p) for one, p in zip(found, ps, strict=True)]


def p_text(p: float) -> str:
    """`p = 0.012`, or `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def effect_text(one: Compared) -> str:
    """`d = +0.42`; `–` where all examples differ by the same."""
    return f"d = {number(one.effect, 2, sign=True) if math.isfinite(one.effect) else MISSING}"


def _outputs(
    study: Study,
    kept: dict[tuple[Model, str, str], list[Predictions]],
    models: Iterable[Model],
    column: Column,
) -> dict[Model, _Outputs]:
    """Scores of each model that kept its outputs, all on the same resamples."""
    import numpy as np

    language, task, metric = column
    kind = study.kind(task)
    read: dict[Model, dict[tuple[int, int], ExampleScores]] = {}
    for model in models:
        for one in kept.get((model, language, task), []):
            own = _read(study, one, kind, metric)
            if own is not None:
                read.setdefault(model, {})[one.cell["seed"], one.run] = own
    if not read:
        return {}
    names = {name for found in read.values() for own in found.values() for name in own.ids}
    # Example -> its row in everyone's statistics; whoever is compared, the same are drawn.
    places = {name: at for at, name in enumerate(sorted(names))}
    systems = {model: _aligned(found, places) for model, found in read.items()}
    scoring = {model: next(iter(found.values())).score for model, found in read.items()}
    parts: dict[Model, list[dict[tuple[int, int], np.ndarray]]] = {model: [] for model in read}
    rng = generator("report", "bootstrap", *column)
    for counts in draws(len(places), RESAMPLES, rng):
        for model, system in systems.items():
            parts[model].append(run_scores(system, counts, scoring[model]))
    return {
        model: _Outputs(
            {key: own.ids for key, own in found.items()},
            {key: np.concatenate([part[key] for part in parts[model]]) for key in found},
            _by_example(found, places),
            {seed: 1 for seed, _ in found},
        )
        for model, found in read.items()
    }


def _mean(models: list[_Outputs]) -> _Outputs:
    """The mean over models, whatever their numbers of seeds."""
    ids: dict[tuple[int, int], list[str]] = {}
    scores: dict[tuple[int, int], np.ndarray] = {}
    alone: dict[tuple[int, int], np.ndarray] = {}
    seeds: dict[int, int] = {}
    for place, one in enumerate(models):
        for run in dict.fromkeys(run for _, run in one.scores):
            keys = [key for key in one.scores if key[1] == run]
            ids[place, run] = [name for key in keys for name in one.ids[key]]
            scores[place, run] = over_seeds({key: one.scores[key] for key in keys})
            alone[place, run] = over_seeds({key: one.alone[key] for key in keys})
        seeds[place] = len(by_seed(one.scores))
    return _Outputs(ids, scores, alone, seeds)


def _read(study: Study, one: Predictions, kind: str, metric: str) -> ExampleScores | None:
    """What each example of a run adds to a metric, read once for all tables.

    None, too, where it does not add up to the score of the record: a test of another number than
    the one that a table shows would mislead.
    """
    key = (one.path, metric)
    if key not in study.read:
        found = example_scores(one.rows(), kind, metric, one.details)
        study.read[key] = found if found and _adds_up(found, one.metrics.get(metric)) else None
    return study.read[key]


def _adds_up(found: ExampleScores, recorded: float | None) -> bool:
    """Whether examples make the score of the record; that of a learned metric has another one."""
    if recorded is None:
        return True
    total = float(found.score(found.statistics.sum(axis=0)))
    return math.isclose(total, recorded, rel_tol=1e-4, abs_tol=1e-6)


def _aligned(found: Mapping[tuple[int, int], ExampleScores], places: dict[str, int]) -> System:
    """Statistics [all examples, statistics]: zeros where a run did not draw an example."""
    import numpy as np

    system = {}
    for key, own in found.items():
        system[key] = np.zeros((len(places), own.statistics.shape[1]))
        system[key][[places[name] for name in own.ids]] = own.statistics
    return system


def _by_example(found: Mapping[tuple[int, int], ExampleScores], places: dict[str, int]) -> Scores:
    """The score of each example by itself [all examples], missing where a run did not draw it."""
    import numpy as np

    alone = {}
    for key, own in found.items():
        alone[key] = np.full(len(places), np.nan)
        alone[key][[places[name] for name in own.ids]] = own.alone
    return alone


def _spreads(study: Study, column: Column) -> dict[Model | str, Spread]:
    """The spread over seeds of models that are alike, from the scores of their records."""
    own = (study.whole or study).scores
    for axis, name in zip(("language", "task", "metric"), column, strict=True):
        own = own[own[axis] == name]
    means = own.groupby([*_AXES, "seed"], sort=False)["value"].mean()
    models: dict[Model | str, dict[Model, list[float]]] = {}
    for (*axes, _), value in means.items():
        model = Model(*map(str, axes))
        models.setdefault(_alike(model), {}).setdefault(model, []).append(float(value))
    return {key: seed_spread(alike.values()) for key, alike in models.items()}


def _compared(
    model: Model,
    baseline: Model,
    column: Column,
    outputs: dict[Model, _Outputs],
    spreads: dict[Model | str, Spread],
) -> Compared | None:
    """One comparison; None where the two have no run in common."""
    ours, theirs = outputs[model], outputs[baseline]
    first, second = shared_runs(ours.scores, theirs.scores)
    if not first:
        return None
    # Two means with one spread differ by one draw of it.
    means: dict[Model | str, list[float]] = {}
    for one, scores in ((model, first), (baseline, second)):
        counts = [outputs[one].seeds[key] for key in by_seed(scores)]
        means.setdefault(_alike(one), []).append(_seeds_behind(counts))
    names = (name for one in (model, baseline) for name in one.keys().values())
    rng = generator("report", "seeds", *column, *names)
    noise = sum(seed_noise(spreads[key], seeds, RESAMPLES, rng) for key, seeds in means.items())
    examples = {name for key in second for name in theirs.ids[key]}
    return Compared(
        model=model,
        baseline=baseline,
        column=column,
        found=compare(first, second, noise),
        level=float(over_seeds(second)[0]),
        corrected=math.nan,
        effect=effect_size(*shared_runs(ours.alone, theirs.alone)),
        examples=len(examples),
        outputs=sum(len(ours.ids[key]) for key in first),
        seeds=spreads[_alike(model)].freedom,
    )


def _seeds_behind(counts: list[int]) -> float:
    """How many seeds vary as much as the mean of means over so many; their number where all are 1.

    The variance of a mean over `n` seeds is 1/n of one seed's.
    """
    return len(counts) ** 2 / sum(1 / count for count in counts)


def _alike(model: Model) -> Model | str:
    """Models whose spread over seeds is one: the trained ones of a source model.

    Of those that were not trained some draw their rows at random and others have no spread at all,
    so each stands for itself.
    """
    return model if model.strategy == "none" else model.source
