"""How much of the gap from random rows to the source model each initializer closes untrained.

The gap is the difference in bits per byte of the same text between the graft with random rows and
the source model. Unlike bits per byte, the share of the gap that an initializer closes can be
averaged over languages.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from lexigraft.randomness import generator
from lexigraft.report.frame import Column, Model, StudyResults, models_of, select, source_model
from lexigraft.report.heldout import BITS_PER_BYTE
from lexigraft.report.items import Name, Refers, TaskOptions
from lexigraft.report.names import metric
from lexigraft.report.significance import (
    RESAMPLES,
    SeedSpreads,
    mean_over_seeds,
    scores_of_models,
    seed_noise,
)

NOTHING = "no task has scores of an untrained graft, one with random rows and the source model"


class GapOptions(TaskOptions):
    """The options of items that show how much of the gap initializers close."""

    floor: Annotated[
        Name, Refers("initializers"), Field(description="initializer that counts as 0 % of the gap")
    ] = "random"


class GapShare(NamedTuple):
    """The result of an initializer in one language, on one text."""

    bits: float  # per byte, of the untrained graft
    rank: float  # among the grafts of its source model and vocabulary, from 1
    share: float  # of the gap: 0 is the floor, 1 the source model; missing if there is no gap
    drawn: np.ndarray | None  # [resamples]: the share on resampled sentences, if they are known


class MeanShare(NamedTuple):
    """Means over languages, and the bounds of the 95 % interval of the share, if it is known."""

    bits: float
    rank: float
    share: float
    low: float
    high: float


class Gap(NamedTuple):
    """The shares of the gap that grafts of a source model and vocabulary close in one task."""

    shares: dict[Model, dict[str, GapShare]]  # by language; the source model is the first
    means: dict[Model, MeanShare]  # of models that were scored in all languages with a gap
    languages: list[str]  # in which there is a gap to close


def gaps(study: StudyResults) -> dict[tuple[str, str, str], Gap]:
    """Source model, vocabulary and task -> the shares of the gap that untrained grafts close.

    For the tasks that an item names, by default all that measure bits per byte; empty if no graft
    has a mean. A table and a figure of the same part share the computation.
    """
    floor = study.item.option("floor")
    key = ("gaps", floor, study.item.tasks, *sorted(study.item.where.items()))
    if key in study.cache:
        return study.cache[key]
    scored = select(study.summary, metric=BITS_PER_BYTE)
    measured = list(scored["task"].drop_duplicates())
    tasks = [task for task in study.item.tasks or measured if task in measured]
    untrained = {*models_of(select(scored, strategy="none"))}
    by_panel = {}
    for source, vocabulary in product(study.order("source"), study.new_vocabularies):
        grafts = [Model(source, vocabulary, name, "none") for name in study.initializers]
        grafts = [model for model in grafts if model in untrained]
        lowest = next((model for model in grafts if model.initializer == floor), None)
        if lowest is None:
            continue
        for task in tasks:
            shares = _shares(study, grafts, lowest, task)
            by_panel[source, vocabulary, task] = _gap(shares, source, vocabulary, task)
    study.cache[key] = by_panel if any(gap.means for gap in by_panel.values()) else {}
    return study.cache[key]


def _shares(
    study: StudyResults, grafts: Sequence[Model], floor: Model, task: str
) -> dict[Model, dict[str, GapShare]]:
    """The share of the gap that each graft of one source model and vocabulary closes, by language.

    The source model, which closes the whole gap, has no rank. Languages in which the floor or the
    source model was not scored are left out.
    """
    from scipy.stats import rankdata  # not at the top: the Snakefile imports this module

    source = source_model(floor.source)
    shares: dict[Model, dict[str, GapShare]] = {model: {} for model in (source, *grafts)}
    for language in study.order("language"):
        column = (language, task, BITS_PER_BYTE)
        rows = {model: study.find(model, *column) for model in (source, *grafts)}
        bits = {model: float(row["mean"]) for model, row in rows.items() if row is not None}
        if floor not in bits or source not in bits:
            continue
        scored = [model for model in grafts if model in bits]
        # Numbers that are equal after rounding have the same rank.
        rounded = [round(bits[model], metric(BITS_PER_BYTE).decimals) for model in scored]
        ranks = dict(zip(scored, rankdata(rounded), strict=True))
        drawn = _resampled_bits(study, [source, *scored], column)
        for model in (source, *scored):
            ends = (floor, model, source)
            shares[model][language] = GapShare(
                bits[model],
                float(ranks.get(model, math.nan)),
                float(share_closed(*(bits[end] for end in ends))),
                share_closed(*(drawn[end] for end in ends)) if drawn.keys() >= {*ends} else None,
            )
    return shares


def share_closed(
    floor: np.ndarray | float, graft: np.ndarray | float, source: np.ndarray | float
) -> np.ndarray:
    """The share of the gap in bits per byte from the floor to the source that is closed.

    Missing if the floor is no worse than the source.
    """
    gap = np.asarray(floor) - source
    return np.divide(floor - np.asarray(graft), gap, out=np.full(gap.shape, np.nan), where=gap > 0)


def _gap(shares: dict[Model, dict[str, GapShare]], *names: str) -> Gap:
    """The means over languages; `names` seed the draws of intervals, the same for all models."""
    results = [item for by_language in shares.values() for item in by_language.items()]
    with_gap = [language for language, result in results if math.isfinite(result.share)]
    gap = Gap(shares, {}, list(dict.fromkeys(with_gap)))
    for model, by_language in shares.items():
        of_model = [by_language[name] for name in gap.languages if name in by_language]
        if not of_model or len(of_model) < len(gap.languages):
            continue
        low = high = math.nan
        drawn = [result.drawn for result in of_model if result.drawn is not None]
        if len(drawn) == len(of_model):
            low, high = interval_of_mean(np.stack(drawn), generator("report", "gaps", *names))
        all_bits, ranks, closed, _ = zip(*of_model, strict=True)
        bits, rank, share = (float(np.mean(values)) for values in (all_bits, ranks, closed))
        gap.means[model] = MeanShare(bits, rank, share, low, high)
    return gap


def interval_of_mean(drawn: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """The 95 % interval of a mean over languages, each of which was scored on a sample of text.

    `drawn` is [languages, resamples of their sentences]. A bootstrap in two stages (Davison and
    Hinkley 1997, §3.8): languages are drawn with replacement, and each has a resample of its
    sentences. The interval of a single language is over sentences only.
    """
    count, size = drawn.shape
    which = rng.integers(count, size=(count, size))
    resamples = rng.permuted(np.tile(np.arange(size), (count, 1)), axis=1)
    chosen = drawn[which, resamples]
    finite = np.isfinite(chosen)  # a resample without a gap has no share
    counts = finite.sum(axis=0)
    means = np.where(finite, chosen, 0.0).sum(axis=0)[counts > 0] / counts[counts > 0]
    low, high = np.percentile(means, (2.5, 97.5))
    return float(low), float(high)


def _resampled_bits(
    study: StudyResults, models: Iterable[Model], column: Column
) -> Mapping[Model, np.ndarray]:
    """Bits per byte [resamples] of each model, on other sentences and other draws of its rows."""
    spreads, drawn = SeedSpreads(study, column), {}
    for model, runs in scores_of_models(study, models, column).items():
        rng = generator("report", "seeds", *column, *model.axes().values())
        noise = seed_noise(spreads[model], [len({seed for seed, _ in runs})], RESAMPLES, rng)
        scores = mean_over_seeds({key: run.scores for key, run in runs.items()})
        drawn[model] = scores[1:] + noise
    return drawn
