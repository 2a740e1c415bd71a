"""How much of the gap from random rows to the source model each initializer closes untrained.

The gap is the difference in bits per byte of the same text between the graft with random rows and
the source model. Unlike bits per byte, the share of the gap that an initializer closes can be
averaged over languages. The Snakefile reads the options, so numpy is imported where it is used.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import Field

from lexigraft.report.items import Name, Refers, TaskOptions
from lexigraft.report.metrics import metric
from lexigraft.report.models import Column, Model, find, models_of, source_model
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import select

if TYPE_CHECKING:
    import numpy as np

METRIC = "bits_per_byte"
UNTRAINED = "none"  # the strategy of untrained grafts
# Why a study may have nothing to show.
NOTHING = "no task has scores of an untrained graft, one with random rows and the source model"


class StartingPointOptions(TaskOptions):
    """The options of items that show how much of the gap initializers close."""

    floor: Annotated[
        Name, Refers("initializers"), Field(description="initializer that counts as 0 % of the gap")
    ] = "random"


class GapShare(NamedTuple):
    """The result of an initializer in one language, on one text."""

    bits: float  # per byte, of the untrained graft
    rank: float  # among the grafts of its source model and vocabulary, from 1
    share: float  # of the gap: 0 is the floor, 1 the source model; missing if there is no gap
    drawn: "np.ndarray | None"  # [resamples]: the share on resampled sentences, if they are known


@dataclass(frozen=True)
class Standing:
    """Means over languages, and the bounds of the 95 % interval of the share, if it is known."""

    bits: float
    rank: float
    share: float
    low: float
    high: float


class Gap(NamedTuple):
    """The shares of the gap that grafts of a source model and vocabulary close in one task."""

    shares: dict[Model, dict[str, GapShare]]  # by language
    means: dict[Model, Standing]  # over the languages with a gap, see `standings`

    @property
    def languages(self) -> list[str]:
        """The languages in which there is a gap to close."""
        return with_gap(self.shares)


def gaps(study: StudyResults) -> dict[tuple[str, str, str], Gap]:
    """Source model, vocabulary and task -> the shares of the gap that untrained grafts close.

    For the tasks that an item names, by default all that measure bits per byte; empty if no graft
    has a mean. A table and a figure of the same part share the computation.
    """
    key = ("gaps", study.item.option("floor"), study.item.tasks, *sorted(study.item.where.items()))
    if key not in study.read:
        scored = list(map(str, select(study.summary, metric=METRIC)["task"].drop_duplicates()))
        tasks = [task for task in study.item.tasks or scored if task in scored]
        found = {}
        for (names, models), task in product(grafts(study).items(), tasks):
            shares = gap_shares(study, models, task)
            found[*names, task] = Gap(shares, standings(shares, *names, task))
        study.read[key] = found if any(gap.means for gap in found.values()) else {}
    return study.read[key]


def grafts(study: StudyResults) -> dict[tuple[str, str], list[Model]]:
    """The scored untrained grafts by source model and vocabulary, in the study's order.

    Only those of vocabularies for which the item's floor was scored.
    """
    scored = {*models_of(select(study.summary, metric=METRIC, strategy=UNTRAINED))}
    found = {}
    for source, vocabulary in product(study.order("source"), study.new_vocabularies):
        every = [Model(source, vocabulary, name, UNTRAINED) for name in study.initializers]
        own = [model for model in every if model in scored]
        if floor_of(study, own):
            found[source, vocabulary] = own
    return found


def floor_of(study: StudyResults, models: Sequence[Model]) -> Model | None:
    """The graft among these that is the lower end of the gap."""
    named = study.item.option("floor")
    return next((model for model in models if model.initializer == named), None)


def gap_shares(
    study: StudyResults, models: Sequence[Model], task: str
) -> dict[Model, dict[str, GapShare]]:
    """The share of the gap that each graft of one source model and vocabulary closes, by language.

    The source model, which closes the whole gap, is the first of them and has no rank. Languages in
    which the floor or the source model was not scored are left out.
    """
    from scipy.stats import rankdata

    source, floor = source_model(models[0].source), floor_of(study, models)
    found: dict[Model, dict[str, GapShare]] = {model: {} for model in (source, *models)}
    for language in study.order("language"):
        column = (language, task, METRIC)
        rows = {model: find(study, model, *column) for model in (source, *models)}
        bits = {model: float(row["mean"]) for model, row in rows.items() if row is not None}
        if floor is None or floor not in bits or source not in bits:
            continue
        scored = [model for model in models if model in bits]
        # Numbers that are equal after rounding have the same rank.
        shown = [round(bits[model], metric(METRIC).decimals) for model in scored]
        ranks = dict(zip(scored, rankdata(shown), strict=True))
        drawn = _resampled(study, [source, *scored], column)
        for model in (source, *scored):
            ends = (floor, model, source)
            found[model][language] = GapShare(
                bits[model],
                float(ranks.get(model, math.nan)),
                float(share_closed(*(bits[one] for one in ends))),
                share_closed(*(drawn[one] for one in ends)) if drawn.keys() >= {*ends} else None,
            )
    return found


def share_closed(
    floor: "np.ndarray | float", own: "np.ndarray | float", source: "np.ndarray | float"
) -> "np.ndarray":
    """The share of the gap in bits per byte from the floor to the source that is closed.

    Missing if the floor is no worse than the source.
    """
    import numpy as np

    gap = np.asarray(floor) - source
    return np.divide(floor - np.asarray(own), gap, out=np.full(gap.shape, np.nan), where=gap > 0)


def with_gap(shares: Mapping[Model, Mapping[str, GapShare]]) -> list[str]:
    """The languages in which there is a gap to close."""
    return list(
        dict.fromkeys(
            language
            for own in shares.values()
            for language, one in own.items()
            if math.isfinite(one.share)
        )
    )


def standings(shares: Mapping[Model, Mapping[str, GapShare]], *names: str) -> dict[Model, Standing]:
    """Means over the languages with a gap, for the models that were scored in all of them.

    `names` seed the draws of the intervals, which are the same for all models.
    """
    import numpy as np

    from lexigraft.randomness import generator

    languages, found = with_gap(shares), {}
    for model, own in shares.items():
        every = [own[language] for language in languages if language in own]
        if not every or len(every) < len(languages):
            continue
        low = high = math.nan
        drawn = [one.drawn for one in every if one.drawn is not None]
        if len(drawn) == len(every):
            low, high = interval_of_mean(np.stack(drawn), generator("report", "gaps", *names))
        bits, rank, share = (
            float(np.mean([getattr(one, name) for one in every]))
            for name in ("bits", "rank", "share")
        )
        found[model] = Standing(bits, rank, share, low, high)
    return found


def interval_of_mean(drawn: "np.ndarray", rng: "np.random.Generator") -> tuple[float, float]:
    """The 95 % interval of a mean over languages, each of which was scored on a sample of text.

    `drawn` is [languages, resamples of their sentences]. A bootstrap in two stages (Davison and
    Hinkley 1997, §3.8): languages are drawn with replacement, and each has a resample of its
    sentences. The interval of a single language is over sentences only.
    """
    import numpy as np

    count, size = drawn.shape
    which = rng.integers(count, size=(count, size))
    resamples = rng.permuted(np.tile(np.arange(size), (count, 1)), axis=1)
    chosen = drawn[which, resamples]
    known = np.isfinite(chosen)  # a resample without a gap has no share
    counts = known.sum(axis=0)
    means = np.where(known, chosen, 0.0).sum(axis=0)[counts > 0] / counts[counts > 0]
    low, high = np.percentile(means, (2.5, 97.5))
    return float(low), float(high)


def _resampled(
    study: StudyResults, models: Sequence[Model], column: Column
) -> "dict[Model, np.ndarray]":
    """Bits per byte [resamples] of each model on the same resamples of a column's sentences.

    Includes the effect of other draws of its rows if a model has several seeds.
    """
    from lexigraft.randomness import generator
    from lexigraft.report.paired_tests import (
        RESAMPLES,
        mean_over_seeds,
        means_by_seed,
        predictions_by_model,
        seed_noise,
    )
    from lexigraft.report.score_differences import scores_of_models, seed_spreads

    outputs = predictions_by_model(study).get(column[:2], {})
    scored = scores_of_models(study, {model: outputs.get(model, []) for model in models}, column)
    spreads, found = seed_spreads(study, column), {}
    for model, own in scored.items():
        rng = generator("report", "seeds", *column, *model.keys().values())
        seeds = [float(len(means_by_seed(own.scores)))]
        noise = seed_noise(spreads[model], seeds, RESAMPLES, rng)
        found[model] = mean_over_seeds(own.scores)[1:] + noise
    return found
