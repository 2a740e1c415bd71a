"""Bits per byte before and after training, both on the same text."""

from lexigraft.report.study import SEEDED, StudyResults
from lexigraft.report.summarize import Frame, select

METRIC = "bits_per_byte"
COLUMNS = [*SEEDED, "before", "after", "measured_on"]


def before_after(study: StudyResults) -> Frame:
    """One row per trained cell and seed: `before`, `after`, and what they were `measured_on`.

    Records of the untrained cells are preferred (`records`: the whole held-out text), of the same
    seed or, where there is none, the mean of the others. Where a language has cells without one,
    all of its cells are read from the training logs (`log`: the held-out sentences scored during
    training), so that all scores of a language are of one text.
    """
    import pandas

    scores = select(study.scores, metric=METRIC)
    records = scores.groupby(SEEDED, sort=False)["value"].mean().to_dict()
    logs = log_ends(study.curves)
    untrained: dict[tuple, dict[int, float]] = {}  # axes except the strategy -> scores by seed
    for (*axes, strategy, seed), value in records.items():
        if strategy == "none":
            untrained.setdefault(tuple(axes), {})[seed] = value
    ends: dict[tuple, tuple[float, float] | None] = {}
    for key in dict.fromkeys([*records, *logs]):
        *axes, strategy, seed = key
        if strategy != "none":
            before = untrained.get(tuple(axes))
            ends[key] = None
            if before and key in records:
                mean = sum(before.values()) / len(before)
                ends[key] = before.get(seed, mean), records[key]
    rows: list[tuple] = []
    for language in study.order("language"):
        own = {key: pair for key, pair in ends.items() if key[1] == language}
        found, measured_on = (own, "records") if all(own.values()) else (logs, "log")
        rows += [(*key, *pair, measured_on) for key in own if (pair := found.get(key))]
    return pandas.DataFrame(rows, columns=COLUMNS)


def log_ends(curves: Frame) -> dict[tuple, tuple[float, float]]:
    """First and last held-out score of each log."""
    if METRIC not in curves:
        return {}
    heldout = curves[(curves["event"] == "heldout") & curves[METRIC].notna()]
    ends = heldout.groupby(SEEDED, sort=False)[METRIC].agg(["first", "last"])
    return dict(zip(ends.index, zip(ends["first"], ends["last"], strict=True), strict=True))
