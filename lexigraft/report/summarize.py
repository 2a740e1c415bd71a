"""Means and standard deviations over seeds, and the change over the source model."""

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import pandas

# For annotations in modules that the Snakefile imports, which must not load pandas.
Frame: TypeAlias = "pandas.DataFrame"
SummaryRow: TypeAlias = "pandas.Series"

CELL = ["source", "language", "vocabulary", "initializer", "strategy"]
KEYS = [*CELL, "task", "kind", "metric"]


def summarize(scores: Frame) -> Frame:
    """One row per cell (without its seed), task and metric.

    `scores` has one row per cell, seed, task, run and metric. Its `value` becomes `mean`, `std`
    (sample standard deviation; missing below two repetitions), `n_seeds`, `n_runs`, `seeds`, `over`
    (what the deviation is over), `source_mean`, `change` (mean minus the source model's on the same
    language and task) and `relative_change`.

    Runs of one seed are averaged first, so that the deviation is over seeds. With one seed and
    several runs, as for the source model, the deviation and `over` refer to runs.
    """
    repeats = scores.groupby(KEYS, sort=False)["value"]
    by_seed = scores.groupby([*KEYS, "seed"], sort=False)["value"].mean().reset_index()
    seeds = by_seed.groupby(KEYS, sort=False)
    table = seeds["value"].agg(["mean", "std"])
    table["n_seeds"] = seeds.size()
    table["n_runs"] = repeats.size()
    table["seeds"] = seeds["seed"].agg(lambda seeds: " ".join(map(str, sorted(seeds))))
    table["over"] = "seeds"
    alone = table["n_seeds"] == 1
    table.loc[alone, "std"] = repeats.std(ddof=1)[alone]
    table.loc[alone, "over"] = ["runs" if runs > 1 else "" for runs in table.loc[alone, "n_runs"]]
    table = table.reset_index()
    shared = ["source", "language", "task", "metric"]
    untouched = select(table, initializer="none", strategy="none").drop_duplicates(shared)
    baseline = untouched[[*shared, "mean"]].rename(columns={"mean": "source_mean"})
    table = table.merge(baseline, on=shared, how="left")
    table["change"] = table["mean"] - table["source_mean"]
    # Scores of learned metrics may be negative: an increase must stay positive.
    level = table["source_mean"].abs().where(table["source_mean"] != 0)
    table["relative_change"] = table["change"] / level
    return table


def select(frame: Frame, **wanted: object) -> Frame:
    """The rows with these values."""
    for name, value in wanted.items():
        frame = frame[frame[name] == value]
    return frame
