"""Bits per byte before and after training, both on the same text."""

from typing import TYPE_CHECKING

from lexigraft.report.names import role
from lexigraft.report.study import SEEDED, StudyResults

if TYPE_CHECKING:
    import pandas

METRIC = "bits_per_byte"
COLUMNS = [*SEEDED, "before", "after", "measured_on"]


def before_after(study: StudyResults, summary: "pandas.DataFrame") -> "pandas.DataFrame":
    """One row per trained cell and seed: `before`, `after`, and what they were `measured_on`.

    Records of the untrained cells are preferred (`records`: the whole held-out text). Where a
    language has cells without one, all of its cells are read from the training logs (`log`: the
    held-out sentences scored during training), so that all scores of a language are of one text.
    """
    import pandas

    scores = study.scores[study.scores["metric"] == METRIC]
    records = scores.groupby(SEEDED, sort=False)["value"].mean().to_dict()
    untrained = _untrained(records)
    logs = log_ends(study.curves)
    trained = [key for key in dict.fromkeys([*records, *logs])
               if role(dict(zip(SEEDED, key, strict=True))) in ("lapt", "adapted")]  # fmt: skip
    rows = []
    for language in study.order("language"):
        own = [key for key in trained if key[1] == language]
        pairs = {key: _from_records(key, records, untrained) for key in own}
        whole = all(pairs.values())
        for key in own:
            if pair := (pairs[key] if whole else logs.get(key)):
                found = {"before": pair[0], "after": pair[1]}
                measured_on = "records" if whole else "log"
                rows.append(
                    dict(zip(SEEDED, key, strict=True)) | found | {"measured_on": measured_on}
                )
    return pandas.DataFrame(rows, columns=COLUMNS)


def _untrained(records: dict[tuple, float]) -> dict[tuple, dict[int, float]]:
    """The scores of untrained cells by seed, by their axes except the strategy."""
    found: dict[tuple, dict[int, float]] = {}
    for (*axes, strategy, seed), value in records.items():
        if strategy == "none":
            found.setdefault(tuple(axes), {})[seed] = value
    return found


def _from_records(
    key: tuple, records: dict[tuple, float], untrained: dict[tuple, dict[int, float]]
) -> tuple[float, float] | None:
    """Before: the untrained cell of the same seed, or the mean of those with other seeds."""
    *axes, _, seed = key
    before = untrained.get(tuple(axes))
    if before is None or key not in records:
        return None
    return before.get(seed, sum(before.values()) / len(before)), records[key]


def log_ends(curves: "pandas.DataFrame") -> dict[tuple, tuple[float, float]]:
    """First and last held-out score of each log."""
    if METRIC not in curves:
        return {}
    heldout = curves[(curves["event"] == "heldout") & curves[METRIC].notna()]
    ends = heldout.groupby(SEEDED, sort=False)[METRIC].agg(["first", "last"])
    return dict(zip(ends.index, zip(ends["first"], ends["last"], strict=True), strict=True))
