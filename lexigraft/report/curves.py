"""The training logs: which loss compares between objectives, and what training starts from."""

from typing import TYPE_CHECKING

from lexigraft.report.study import Study
from lexigraft.report.summarize import CELL

if TYPE_CHECKING:
    import pandas


def of_next_tokens(curves: "pandas.DataFrame") -> "pandas.DataFrame":
    """The loss of multi-token prediction is a sum; its first part compares with the others'."""
    if "next_loss" not in curves:
        return curves
    return curves.assign(loss=curves["next_loss"].fillna(curves["loss"]))


def starts(study: Study) -> "pandas.DataFrame":
    """What training under the reference strategy starts from, by source to initializer.

    Returns
    -------
    pandas.DataFrame
        `first_loss`, the training loss of the first step, before any update (nats per token), and
        `bits_per_byte_before`, of the held-out sentences watched; means over seeds, indexed by
        source, language, vocabulary and initializer.
    """
    import pandas

    curves = of_next_tokens(study.curves)
    curves = curves[curves["strategy"] == (study.reference_strategy or "none")]
    found = {}
    for name, event, column in (
        ("first_loss", "step", "loss"),
        ("bits_per_byte_before", "heldout", "bits_per_byte"),
    ):
        if column in curves:
            lines = curves[(curves["event"] == event) & curves[column].notna()]
            lines = lines.sort_values("step", kind="stable")
            by_seed = lines.groupby([*CELL[:4], "seed"], sort=False)[column].first()
            found[name] = by_seed.groupby(level=CELL[:4], sort=False).mean()
    columns = ["first_loss", "bits_per_byte_before"]
    if not found:
        return pandas.DataFrame(
            columns=columns, index=pandas.MultiIndex.from_tuples([], names=CELL[:4])
        )
    return pandas.DataFrame(found, columns=columns)
