"""Properties of each initializer before any training: sparsity, convexity, concentration."""

from typing import Annotated

import pandas
from pydantic import Field

from lexigraft.report.frame import CELL, StudyResults, select
from lexigraft.report.items import Options, table
from lexigraft.report.models import vocabulary_stub
from lexigraft.report.table import Shown, Table, frame_table, number

AGREEMENT = "greedy_agreement"  # a kind of task, and its main metric
# Statistics in reading order, with their headings; those of a single method follow by name.
_COLUMNS = {
    "copied_tokens": ("tokens", "copied"),
    "initialized_tokens": ("tokens", "initialized"),
    "share_copied": ("tokens", "coverage"),
    "share_recipe": ("share of new tokens", "recipe"),
    "share_copy": ("share of new tokens", "copy"),
    "share_fallback": ("share of new tokens", "fallback"),
    "share_in_hull": ("share of new tokens", "in hull"),
    "mean_nonzeros": ("recipe", "source tokens"),
    "mean_entropy": ("recipe", "entropy"),
    "largest_hub": ("recipe", "largest hub"),
    "cosine_to_mean": ("cosine to the mean", "input"),
    "output_cosine_to_mean": ("cosine to the mean", "head"),
    "relative_norm": ("norm", "input"),
    "output_relative_norm": ("norm", "head"),
    "seconds": ("fit", "seconds"),
    AGREEMENT: ("greedy output", "unchanged"),
}
# `share_fallback` and `initialized_tokens` already show these, except that SALT copies some new
# tokens. Counts of a separate recipe for the head, and memory, are only in the CSV file.
_ONLY_IN_CSV = ("fallbacks", "new_tokens", "peak_memory_bytes")


class InitializerOptions(Options):
    """The options of a table of initializers."""

    coverage_of: Annotated[
        int | None,
        Field(
            ge=1,
            description="number of tokens that coverage is a share of; default: those of each "
            "vocabulary. SALT's Table 6 divides by 50257 in all languages",
        ),
    ] = None


@table(
    title="Initializers before training",
    caption="What each initializer computes before any training. The tokens of the vocabulary that "
    "copy the row of a source token, and the shares of the others with a recipe, a copy of one "
    "source token or the fallback; the number of source tokens in a recipe (nonzeros, entropy); "
    "the share of new rows in the convex hull of the source rows; the number of new tokens that "
    "use the most used source token; the cosine of the new rows to the mean of all, and their "
    "norm; the fitting time in seconds; and, with a task of kind greedy agreement, whether the "
    "untrained graft still generates what the source model generates after English text.",
    empty="no initializer's recipe was recorded",
    options=InitializerOptions,
)
def initializers(study: StudyResults) -> Table | None:
    """One row per language, vocabulary and initializer; a column per statistic of its card."""
    axes = CELL[:4]
    frame = study.initialization
    frame = frame[frame["initializer"].isin(study.initializers)]
    if frame.empty:
        return None
    # Add how often the greedy output of the untrained grafts is unchanged.
    grafts = select(study.scores, metric=AGREEMENT, strategy="none")
    grafts = grafts[grafts["initializer"].isin(frame["initializer"])].assign(statistic=AGREEMENT)
    if len(grafts):
        frame = pandas.concat([frame, grafts[frame.columns]], ignore_index=True)
    means = frame.groupby([*axes, "statistic"], sort=False)["value"].mean().reset_index()
    wide = means.pivot_table(index=axes, columns="statistic", values="value", sort=False)
    if tokens := study.item.option("coverage_of"):
        wide["share_copied"] = wide["copied_tokens"] / tokens
    of_methods = {
        name: ("", name.replace("_", " "))
        for name in means["statistic"].unique()
        if name not in (*_COLUMNS, *_ONLY_IN_CSV) and not name.startswith("output_")
    }
    columns = {}
    for name, head in (_COLUMNS | of_methods).items():
        if name in wide:
            whole = (wide[name].dropna() % 1 == 0).all()
            percent = name.startswith("share") or name == AGREEMENT
            columns[name] = Shown(head, None if percent else 0 if whole else 2)
    notes = [
        "Means over seeds where an initializer draws at random. Entropy in nats. In hull: no "
        "weight of a recipe is negative and they sum to one; unknown where rows are drawn or "
        "projected. Norm: mean norm of the new rows over that of the source rows. Seconds include "
        "the training of any vectors."
    ]
    if tokens := study.item.option("coverage_of"):
        notes.append(f"Coverage: copied tokens divided by {number(tokens, 0)}.")
    return frame_table(
        wide.reset_index(),
        columns,
        *vocabulary_stub(study, initializers=True),
        notes,
        means,
    )
