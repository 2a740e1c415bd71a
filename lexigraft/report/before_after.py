"""Bits per byte before and after training, on the text that tables show it for."""

import math

from lexigraft.report.study import SEEDED, StudyResults
from lexigraft.report.summarize import Frame, select

METRIC = "bits_per_byte"
COLUMNS = [*SEEDED, "before", "after", "measured_on"]


def before_after(study: StudyResults) -> Frame:
    """One row per trained cell and seed: `before`, `after`, and what they were `measured_on`.

    Both are of records (`records`), so that a score has one number in all of a report. `before` is
    that of the untrained cell of the same seed or, where there is none, the mean of the others;
    missing where no untrained cell was evaluated. Cells of a language without any record are read
    from the training logs (`log`: the held-out sentences scored during training, often fewer).
    """
    import pandas

    scores = select(study.scores, metric=METRIC)
    records = scores.groupby(SEEDED, sort=False)["value"].mean().to_dict()
    logs = log_ends(study.curves)
    untrained: dict[tuple, dict[int, float]] = {}  # axes except the strategy -> scores by seed
    for (*axes, strategy, seed), value in records.items():
        if strategy == "none":
            untrained.setdefault(tuple(axes), {})[seed] = value
    ends: dict[tuple, tuple[float, float]] = {}
    for key, after in records.items():
        *axes, strategy, seed = key
        if strategy != "none":
            before = untrained.get(tuple(axes), {})
            mean = sum(before.values()) / len(before) if before else math.nan
            ends[key] = before.get(seed, mean), after
    rows: list[tuple] = []
    for language in study.order("language"):
        found, measured_on = ends, "records"
        if not any(key[1] == language for key in ends):
            found = {key: pair for key, pair in logs.items() if key[-2] != "none"}
            measured_on = "log"
        rows += [(*key, *pair, measured_on) for key, pair in found.items() if key[1] == language]
    return pandas.DataFrame(rows, columns=COLUMNS)


def log_ends(curves: Frame) -> dict[tuple, tuple[float, float]]:
    """First and last held-out score of each log."""
    if METRIC not in curves:
        return {}
    heldout = curves[(curves["event"] == "heldout") & curves[METRIC].notna()]
    ends = heldout.groupby(SEEDED, sort=False)[METRIC].agg(["first", "last"])
    return dict(zip(ends.index, zip(ends["first"], ends["last"], strict=True), strict=True))
