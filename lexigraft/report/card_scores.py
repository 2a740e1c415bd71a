"""Numbers of cards, logs and records of tokenizers as scores of cells, so that tables show them.

They are scores of the tasks `CARD_TASKS`, which items name like others. `training` has the numbers
of the cards of training, `first_loss` (of the first step, before any update), `last_loss`,
`bits_per_byte_before` (of the first evaluation of held-out text), `validation_loss_30` (nats per
token of held-out text after 30 % of the steps, for each point at which it was evaluated) and, for
names in items, `tokens_to_loss_2.75` (millions of tokens until the running mean of the loss is that
low).
`initialization` has the statistics of fitted initializers, `vocabulary` the numbers of tokens.
"""

import re
from collections.abc import Iterable

import numpy as np
import pandas
from pandas import DataFrame

from lexigraft.cells import AXES
from lexigraft.report.items import CARD_TASKS
from lexigraft.report.names import TOKENS_TO_LOSS

_CELL = list(AXES)
# A running mean covers 1/25 of the steps, since the loss of a single step is noisy.
SMOOTHED_TO = 25


def card_scores(
    scores: DataFrame,
    training: DataFrame,
    curves: DataFrame,
    initialization: DataFrame,
    fragmentation: DataFrame,
    metrics: Iterable[str] = (),
) -> DataFrame:
    """A row per cell and number, with the columns of `scores`; `metrics` are those of an item."""
    cells = pandas.concat([scores[_CELL], training[_CELL]]).drop_duplicates()
    numbers = training.drop(columns=_CELL).select_dtypes("number")
    of_cards = training[_CELL].join(numbers).melt(_CELL, var_name="metric")
    of_fits = cells.merge(
        initialization.rename(columns={"statistic": "metric", "seed": "fit_seed"}), on=_CELL[:4]
    )
    of_fits = of_fits[of_fits["fit_seed"].isna() | (of_fits["fit_seed"] == of_fits["seed"])]
    frames = {
        "training": pandas.concat([of_cards, *_losses(curves, metrics)]),
        "initialization": of_fits,
        "vocabulary": cells.merge(fragmentation, on=_CELL[:3]),
    }
    rows = [frames[task].assign(task=task, kind=task, run=0) for task in CARD_TASKS]
    return pandas.concat(rows)[list(scores)].dropna(subset="value")


def next_token_losses(curves: DataFrame) -> DataFrame:
    """Replace the loss of multi-token prediction, a sum, by its first part, which is comparable."""
    if "next_loss" not in curves:
        return curves
    return curves.assign(loss=curves["next_loss"].fillna(curves["loss"]))


def _losses(curves: DataFrame, metrics: Iterable[str]) -> Iterable[DataFrame]:
    """Rows of cells with numbers of their logs."""
    if "loss" not in curves:
        return
    curves = next_token_losses(curves).sort_values("step", kind="stable")
    steps = curves[curves["event"] == "step"]
    heldout = curves[curves["event"] == "heldout"]
    by_cell = steps.groupby(_CELL, sort=False, observed=True)
    for name, ends in (("first_loss", by_cell.first()), ("last_loss", by_cell.last())):
        yield ends["loss"].reset_index(name="value").assign(metric=name)
    if "bits_per_byte" in heldout:
        starts = heldout.groupby(_CELL, sort=False, observed=True)["bits_per_byte"].first()
        yield starts.reset_index(name="value").assign(metric="bits_per_byte_before")
    if "perplexity" in heldout:
        points = heldout[heldout["perplexity"] > 0].join(
            by_cell["step"].last().rename("all"), on=_CELL
        )
        percent = (100 * points["step"] / points["all"]).round()
        names = "validation_loss_" + percent.astype("Int64").astype(str)
        yield points.assign(metric=names, value=np.log(points["perplexity"]))
    for name in metrics:
        if level := re.fullmatch(TOKENS_TO_LOSS, name):
            means = by_cell["loss"].transform(smoothed)
            reached = steps[means <= float(level[1])].groupby(_CELL, sort=False, observed=True)
            tokens = (reached["tokens"].first() / 1e6).reset_index(name="value")
            yield tokens.assign(metric=name)


def smoothed(losses: pandas.Series | DataFrame) -> pandas.Series | DataFrame:
    """The running mean of losses by step; the first step's, before any update, stays as it is."""
    return losses.rolling(max(1, len(losses) // SMOOTHED_TO), min_periods=1).mean()
