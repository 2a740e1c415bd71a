"""How much of the gap from random rows to the source model each initializer closes untrained.

The gap is the difference in bits per byte of the same text between the graft with random rows and
the source model. Unlike bits per byte, the share of the gap that an initializer closes can be
averaged over languages.
"""

import math
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from pandas import DataFrame

from lexigraft.randomness import generator
from lexigraft.report.frame import AXES, Column, Model, StudyResults, select, source_model
from lexigraft.report.heldout import BITS_PER_BYTE
from lexigraft.report.items import TaskOptions, table
from lexigraft.report.models import stub, stub_names
from lexigraft.report.names import initializer_name, listed, metric, task_name
from lexigraft.report.significance import (
    RESAMPLES,
    SeedSpreads,
    mean_over_seeds,
    scores_of_models,
    seed_noise,
)
from lexigraft.report.table import (
    Row,
    Shown,
    Table,
    TableCell,
    missing_note,
    number,
    number_cell,
    ranked,
)

NOTHING = "no task has scores of an untrained graft, one with random rows and the source model"
FLOOR = "random"  # the initializer that counts as 0 % of the gap
# Statistics of a fit: how they are aggregated over languages, their unit, and how they are shown.
_FIT = {
    "seconds": ("mean", 1, Shown(("fit", "seconds"), 1)),
    "peak_memory_bytes": ("max", 1e6, Shown(("fit", "memory, MB"), 0)),
    "relative_norm": ("mean", 1, Shown(("new rows", "norm"), 2)),
    "share_in_hull": ("mean", 1, Shown(("new rows", "in hull"), None)),
}


class GapShare(NamedTuple):
    """The result of a model in one language, or its mean over languages."""

    bits: float  # per byte, of the untrained graft
    rank: float  # among the grafts of its source model and vocabulary, from 1
    share: float  # of the gap: 0 is the floor, 1 the source model; missing if there is no gap
    drawn: np.ndarray | None = None  # [resamples]: the share on resampled sentences, if known
    low: float = math.nan  # bounds of the 95 % interval of a mean
    high: float = math.nan


# The shares of the gap of models by language; under "" the mean, if a model has all languages with
# a gap. The source model is the first.
Gap = dict[Model, dict[str, GapShare]]


@table(
    title="Starting points before any training",
    caption="Initializers by the share of the gap that they close before any training: from the "
    "graft with random rows to the source model, in bits per byte of the same text. Means over "
    "languages with 95 % intervals; mean ranks; time and memory to compute the rows; and "
    "properties of the rows.",
    empty=NOTHING,
    options=TaskOptions,
)
def leaderboard(study: StudyResults) -> Table | None:
    """Rows: the source model, then its initializers, best first, by vocabulary.

    Columns of each task are means over languages; a row that lacks a language has none.
    """
    by_panel = gaps(study)
    if not by_panel:
        return None
    tasks = list(dict.fromkeys(task for *_, task in by_panel))
    fits, headers = _fits(study), stub_names(study)
    bits = metric(BITS_PER_BYTE)
    of_task = (f"{bits.title} ↓", "gap closed ↑", "mean rank ↓")
    rows: dict[Row, None] = {}  # the source model is repeated for each vocabulary
    for source, vocabulary in dict.fromkeys(key[:2] for key in by_panel):
        of_tasks = [by_panel[source, vocabulary, task] for task in tasks]
        for model in best_first(of_tasks[0]):
            cells: list[TableCell] = []
            for gap in of_tasks:
                mean = gap[model].get("")
                if mean is None:
                    cells += [TableCell()] * len(of_task)
                    continue
                ends = [number(100 * end, 1) for end in (mean.low, mean.high) if math.isfinite(end)]
                closed = number_cell(mean.share, None)
                cells += [
                    number_cell(mean.bits, bits.decimals),
                    closed if model.baseline else replace(closed, change=" to ".join(ends)),
                    TableCell("") if model.baseline else number_cell(mean.rank, 1),
                ]
            for name, (_, unit, shown) in _FIT.items():
                value = fits.get(model, {}).get(name, math.nan) / unit
                cells.append(TableCell("") if model.baseline else shown.cell(value))
            group = source if model.baseline else f"{source} {vocabulary}"
            rows[Row(stub(model, headers), tuple(cells), model.baseline, group)] = None
    ordered = ranked([*rows], [*(False, True, False) * len(tasks), *(None,) * len(_FIT)])
    titles = [task_name(task, study.task_kind(task)) if len(tasks) > 1 else "" for task in tasks]
    heads = [*product(titles, of_task)]
    scores = [replace(row, cells=row.cells[: len(heads)]) for row in ordered]
    data: list[dict[str, Any]] = []  # per model, task and language; without one for the means
    for (*_, task), gap in by_panel.items():
        for model, by_language in gap.items():
            for language, result in by_language.items():
                names = {axis: getattr(model, axis) for axis in AXES[:3]} | {"task": task}
                numbers = {BITS_PER_BYTE: result.bits, "rank": result.rank}
                numbers |= {"gap_closed": result.share, "gap_closed_low": result.low}
                numbers |= {"gap_closed_high": result.high} | (
                    fits.get(model, {}) if not language else {}
                )
                data.append({**names, "language": language, **numbers})
    floor = initializer_name(FLOOR)
    scored = {name for gap in by_panel.values() for by in gap.values() for name in by if name}
    known = {name for gap in by_panel.values() for name in languages_with_gap(gap)}
    notes = [
        f"Before any training, over {listed(map(study.language, known_in(study, known)))}. Gap "
        f"closed: 0 % is {floor}, 100 % the source model, in bits per byte of the same text; next "
        "to it the bounds of the 95 % interval, by a bootstrap over languages and the sentences of "
        f"each ({RESAMPLES:,} resamples).",
        "Mean rank: 1 is the lowest bits per byte of a language; ties get the mean of their ranks.",
        "Fit: seconds and peak memory to compute the rows, including the training of any vectors "
        "for them. Norm: mean norm of the new rows over that of the source rows. In hull: no weight"
        " of the recipe is negative and they sum to one; – where rows have no recipe.",
        *missing_note(scores, heads),
    ]
    if without_gap := known_in(study, scored - known):
        left_out = listed(map(study.language, without_gap))
        notes.append(f"Left out, because {floor} is no worse than the source model: {left_out}.")
    heads += [shown.head for *_, shown in _FIT.values()]
    return Table(headers, heads, ordered, DataFrame(data).drop_duplicates(), notes)


def known_in(study: StudyResults, languages: set[str]) -> list[str]:
    """Languages in the order of the item."""
    return [name for name in study.order("language") if name in languages]


def best_first(gap: Gap) -> list[Model]:
    """The models of a panel by their mean share: the source model, then the best graft first."""
    shares = {model: results[""].share for model, results in gap.items() if "" in results}
    scored = (model for model, results in gap.items() if results)
    return sorted(scored, key=lambda model: (not model.baseline, -shares.get(model, -math.inf)))


def languages_with_gap(gap: Gap) -> list[str]:
    """The languages in which there is a gap to close."""
    closed = (item for by_language in gap.values() for item in by_language.items())
    return list(dict.fromkeys(name for name, item in closed if name and math.isfinite(item.share)))


def gaps(study: StudyResults) -> dict[tuple[str, str, str], Gap]:
    """Source model, vocabulary and task -> the shares of the gap that untrained grafts close.

    For the tasks that an item names, by default all that measure bits per byte; empty if no graft
    has a mean. A table and a figure of the same part share the computation.
    """
    key = ("gaps", study.item.tasks, *sorted(study.item.where.items()))
    if key not in study.cache:
        scored = select(study.summary, metric=BITS_PER_BYTE, strategy="none")
        tasks = list(study.item.tasks or scored["task"].unique())
        panels = product(study.order("source"), study.new_vocabularies, tasks)
        by_panel = {panel: _gap(study, *panel) for panel in panels}
        has_means = any("" in results for gap in by_panel.values() for results in gap.values())
        study.cache[key] = {panel: gap for panel, gap in by_panel.items() if gap and has_means}
    return study.cache[key]


def _gap(study: StudyResults, source_name: str, vocabulary: str, task: str) -> Gap:
    """The results of the grafts of one source model and vocabulary; empty without the floor.

    The source model, which closes the whole gap, has no rank. Languages in which the floor or the
    source model was not scored are left out.
    """
    from scipy.stats import rankdata  # not at the top: the Snakefile imports this module

    source, floor = source_model(source_name), Model(source_name, vocabulary, FLOOR, "none")
    grafts = [Model(source_name, vocabulary, name, "none") for name in study.initializers]
    gap: Gap = {model: {} for model in (source, *grafts)}
    for language in study.order("language"):
        column = (language, task, BITS_PER_BYTE)
        rows = {model: study.find(model, *column) for model in gap}
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
            share = float(share_closed(*(bits[end] for end in ends)))
            known = drawn.keys() >= {*ends}
            resampled = share_closed(*(drawn[end] for end in ends)) if known else None
            rank = float(ranks.get(model, math.nan))
            gap[model][language] = GapShare(bits[model], rank, share, resampled)
    languages = languages_with_gap(gap)
    for results in gap.values():
        of_model = [results[name] for name in languages if name in results]
        if of_model and len(of_model) == len(languages):
            low = high = math.nan
            resamples = [result.drawn for result in of_model if result.drawn is not None]
            if len(resamples) == len(of_model):
                # The same draws for all models.
                rng = generator("report", "gaps", source_name, vocabulary, task)
                low, high = interval_of_mean(np.stack(resamples), rng)
            means = np.mean([result[:3] for result in of_model], axis=0)
            mean_bits, mean_rank, mean_share = map(float, means)
            results[""] = GapShare(mean_bits, mean_rank, mean_share, None, low, high)
    return gap


def share_closed(
    floor: np.ndarray | float, graft: np.ndarray | float, source: np.ndarray | float
) -> np.ndarray:
    """The share of the gap in bits per byte from the floor to the source that is closed.

    Missing if the floor is no worse than the source.
    """
    gap = np.asarray(floor) - source
    return np.divide(floor - np.asarray(graft), gap, out=np.full(gap.shape, np.nan), where=gap > 0)


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
    study: StudyResults, models: list[Model], column: Column
) -> dict[Model, np.ndarray]:
    """Bits per byte [resamples] of each model, on other sentences and other draws of its rows."""
    spreads, drawn = SeedSpreads(study, column), {}
    for model, runs in scores_of_models(study, models, column).items():
        rng = generator("report", "seeds", *column, *model.axes().values())
        noise = seed_noise(spreads[model], [len({seed for seed, _ in runs})], RESAMPLES, rng)
        scores = mean_over_seeds({key: run.scores for key, run in runs.items()})
        drawn[model] = scores[1:] + noise
    return drawn


def _fits(study: StudyResults) -> dict[Model, dict[str, float]]:
    """Cost of computing the rows, and their norm and hull, aggregated over languages and seeds."""
    frame = study.initialization
    frame = frame[frame["statistic"].isin(_FIT)]
    fits: dict[Model, dict[str, float]] = {}
    for key, values in frame.groupby([*AXES[:3], "statistic"], sort=False)["value"]:
        source, vocabulary, initializer, statistic = map(str, key)
        of_model = fits.setdefault(Model(source, vocabulary, initializer, "none"), {})
        of_model[statistic] = float(values.agg(_FIT[statistic][0]))
    return fits
