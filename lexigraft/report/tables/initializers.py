"""What each initializer's recipe looks like before any training: sparse, convex, concentrated?"""

from typing import TYPE_CHECKING

from lexigraft.report.names import initializer_name
from lexigraft.report.study import Study
from lexigraft.report.tables.table import MISSING, Cell, Row, Table, is_compact, number

if TYPE_CHECKING:
    import pandas

AXES = ["source", "language", "vocabulary", "initializer"]
AGREEMENT = "greedy_agreement"  # a kind of task, and its main metric
# Statistics in reading order, with what stands over them; a method's own follow as they are called.
_COLUMNS = {
    "new_tokens": ("", "new tokens"),
    "share_recipe": ("share of new tokens", "recipe"),
    "share_copy": ("share of new tokens", "copy"),
    "share_fallback": ("share of new tokens", "fallback"),
    "share_in_hull": ("share of new tokens", "in hull"),
    "mean_nonzeros": ("recipe", "source tokens"),
    "mean_entropy": ("recipe", "entropy"),
    "largest_hub": ("recipe", "largest hub"),
    "cosine_to_mean": ("cosine to the mean", "input"),
    "output_cosine_to_mean": ("cosine to the mean", "head"),
    AGREEMENT: ("greedy output", "unchanged"),
}
# `share_fallback` says it already. What a head of its own recipe counts is in the CSV file alone.
_UNSHOWN = ("fallbacks",)


def build(study: Study, summary: "pandas.DataFrame") -> Table | None:
    """One row per language, vocabulary and initializer; a column per statistic of its card."""
    frame = study.initialization
    frame = frame[frame["initializer"].isin(study.initializers)]
    if frame.empty:
        return None
    means = _with_agreement(frame, study)
    means = means.groupby([*AXES, "statistic"], sort=False)["value"].mean().reset_index()
    own = [name for name in means["statistic"].unique() if _is_own(name)]
    names = [name for name in _COLUMNS if name in set(means["statistic"])] + own
    wide = means.pivot_table(index=AXES, columns="statistic", values="value", sort=False)
    rows = []
    several = len(study.order("source")) > 1
    stubs = (*(("Source model",) if several else ()), "Language", "Vocabulary", "Initializer")
    for key in wide.index:
        cells = tuple(_cell(name, wide.at[key, name], wide[name]) for name in names)
        left = (study.language(key[1]), key[2], initializer_name(key[3]))
        rows.append(Row((key[0], *left) if several else left, cells))
    heads = tuple(_COLUMNS.get(name, ("", name.replace("_", " "))) for name in names)
    notes = [
        "Means over seeds where an initializer draws at random. Source tokens: how many rows a new "
        "row leans on; entropy of its weights, in nats. In hull: weights not negative and summing "
        "to one. Largest hub: new tokens that lean on the source token used most.",
    ]
    if AGREEMENT in names:
        notes.append(
            "Greedy output unchanged: English prompts after which the untrained graft writes what "
            "the source model writes (paper 004, Theorem 2: all of them, if all rows are in the "
            "hull)."
        )
    if any(cell.value is None for row in rows for cell in row.cells):
        notes.append(
            f"{MISSING}: rows that are drawn have no recipe, and of projected ones (OFA) nobody "
            "knows whether they are in the hull."
        )
    return Table("initializers", "What the initializers compute", stubs, heads, tuple(rows), means,
                 tuple(notes), is_compact(len(heads), len(stubs)))  # fmt: skip


def _with_agreement(frame: "pandas.DataFrame", study: Study) -> "pandas.DataFrame":
    """Statistics with what the untrained grafts of these initializers still write."""
    import pandas

    scores = study.scores
    grafts = scores[(scores["metric"] == AGREEMENT) & (scores["strategy"] == "none")]
    grafts = grafts[grafts["initializer"].isin(frame["initializer"])]
    if grafts.empty:
        return frame
    grafts = grafts[[*AXES, "seed", "value"]].assign(statistic=AGREEMENT)
    return pandas.concat([frame, grafts], ignore_index=True)


def _is_own(name: str) -> bool:
    """Whether a statistic is of one method, and shown."""
    return name not in (*_COLUMNS, *_UNSHOWN) and not name.startswith("output_")


def _cell(name: str, value: float, column: "pandas.Series") -> Cell:
    if value != value:
        return Cell()
    if name.startswith("share") or name == AGREEMENT:
        return Cell(f"{number(100 * value, 1)} %", value=float(value))
    whole = bool((column.dropna() % 1 == 0).all())
    return Cell(number(value, 0 if whole else 2), value=float(value))
