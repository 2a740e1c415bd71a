"""Scores in the course of training: of each checkpoint, and of the models before and after it."""

from typing import TYPE_CHECKING

from lexigraft.report.study import SEEDED, Study
from lexigraft.report.summarize import CELL

if TYPE_CHECKING:
    import pandas

KEYS = [*SEEDED, "task", "kind", "metric"]


def checkpoint_scores(study: Study) -> "pandas.DataFrame":
    """One row per trained cell (without its seed), task, metric and checkpoint.

    Returns
    -------
    pandas.DataFrame
        `mean` and `std` over seeds of the means over runs (`std` is missing below two seeds), by
        `checkpoint`: 0 is the cell before training, the largest one the trained cell itself.
        Empty without records of checkpoints.
    """
    import pandas

    inside = study.checkpoints
    columns = [*CELL, "task", "kind", "metric", "checkpoint", "mean", "std"]
    if inside.empty:
        return pandas.DataFrame(columns=columns)
    wanted = inside[KEYS].drop_duplicates()
    last = study.training[[*SEEDED, "checkpoints"]].rename(columns={"checkpoints": "checkpoint"})
    after = study.scores.merge(wanted, on=KEYS).merge(last, on=SEEDED)
    rows = pandas.concat([_before(study, wanted), inside, after], ignore_index=True)
    by_seed = rows.groupby([*KEYS, "checkpoint"], sort=False)["value"].mean().reset_index()
    grouped = by_seed.groupby([*CELL, "task", "kind", "metric", "checkpoint"], sort=False)
    return grouped["value"].agg(["mean", "std"]).reset_index()


def _before(study: Study, wanted: "pandas.DataFrame") -> "pandas.DataFrame":
    """Scores of untrained cells under the names of the cells that training makes of them.

    Those of the same seed, or the mean of those that there are: many are made for one seed alone.
    """
    import pandas

    untrained = study.scores[study.scores["strategy"] == "none"]
    axes = [axis for axis in KEYS if axis not in ("strategy", "seed")]
    same = wanted.merge(untrained.drop(columns="strategy"), on=[*axes, "seed"])
    have = same[KEYS].drop_duplicates().assign(found=True)
    rest = wanted.merge(have, on=KEYS, how="left")
    rest = rest[rest["found"].isna()].drop(columns="found")
    means = untrained.groupby(axes, sort=False)["value"].mean().reset_index()
    return pandas.concat([same, rest.merge(means, on=axes)]).assign(checkpoint=0)
