"""Properties of each initializer before any training: sparsity, convexity, concentration."""

from lexigraft.report.items import Kind
from lexigraft.report.models import vocabulary_stub, vocabulary_stub_names
from lexigraft.report.names import initializer_name
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import CELL, select
from lexigraft.report.table import MISSING, Row, Table, number_cell, percent_cell

KIND = Kind(
    title="Initializers before training",
    caption="What each initializer computes before any training. The tokens of the vocabulary that "
    "copy the row of a source token, and the shares of the others with a recipe, a copy of one "
    "source token or the fallback; the number of source tokens in a recipe (nonzeros, entropy); "
    "the share of new rows in the convex hull of the source rows; the number of new tokens that "
    "use the most used source token; the cosine of the new rows to the mean of all, and their "
    "norm; the fitting time in seconds; and, with a task of kind greedy agreement, whether the "
    "untrained graft still generates what the source model generates after English text.",
    empty="no initializer's recipe was recorded",
)
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
_UNSHOWN = ("fallbacks", "new_tokens", "peak_memory_bytes")


def build(study: StudyResults) -> Table | None:
    """One row per language, vocabulary and initializer; a column per statistic of its card."""
    import pandas

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
    statistics = list(means["statistic"].unique())
    own = [name for name in statistics
           if name not in (*_COLUMNS, *_UNSHOWN) and not name.startswith("output_")]  # fmt: skip
    names = [name for name in _COLUMNS if name in statistics] + own
    wide = means.pivot_table(index=axes, columns="statistic", values="value", sort=False)
    whole = [name for name in names if (wide[name].dropna() % 1 == 0).all()]
    rows = []
    for key, found in zip(wide.index, wide.to_dict("records"), strict=True):
        cells = tuple(
            percent_cell(found[name])
            if name.startswith("share") or name == AGREEMENT
            else number_cell(found[name], 0 if name in whole else 2)
            for name in names
        )
        rows.append(Row(vocabulary_stub(study, *key[:3], initializer_name(key[3])), cells))
    heads = tuple(_COLUMNS.get(name, ("", name.replace("_", " "))) for name in names)
    notes = [
        "Means over seeds where an initializer draws at random. Source tokens: the number of "
        "source rows in a recipe; entropy of its weights in nats. In hull: no weight is negative "
        "and they sum to one. Largest hub: new tokens whose recipe has the most used source token. "
        "Norm: mean norm of the new rows over that of the source rows. Seconds include the "
        "training of any vectors for the initializer."
    ]
    if AGREEMENT in names:
        notes.append(
            "Greedy output unchanged: English prompts for which the untrained graft generates what "
            "the source model generates (CW2V, Theorem 2: all of them, if all rows are in the "
            "hull)."
        )
    if any(cell.value is None for row in rows for cell in row.cells):
        notes.append(
            f"{MISSING}: rows drawn at random have no recipe; whether projected rows (OFA) are in "
            "the hull is not known."
        )
    return Table(vocabulary_stub_names(study, "Initializer"), heads, rows, means, notes)
