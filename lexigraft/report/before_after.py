"""Bits per byte before and after training, on the text that tables use."""

from lexigraft.report.names import listed
from lexigraft.report.study import SEEDED, StudyResults
from lexigraft.report.summarize import CELL, Frame, select

METRIC = "bits_per_byte"


def text_tasks(study: StudyResults, metric: str = METRIC) -> dict[str, str]:
    """Language -> the task whose text represents it: the one with most models; ties: the first.

    A mean over tasks would not refer to any text.
    """
    rows = select((study.whole or study).summary, metric=metric)
    return {
        str(language): str(own["task"].value_counts(sort=False).idxmax())
        for language, own in rows.groupby("language", sort=False)
    }


def text_name(study: StudyResults, metric: str = METRIC) -> str:
    """The tasks whose text is shown, if other tasks also have scores; otherwise empty."""
    rows = select((study.whole or study).summary, metric=metric)
    shown = dict.fromkeys(text_tasks(study, metric).values())
    return listed(shown) if {*rows["task"]} - {*shown} else ""


def text_scores(frame: Frame, tasks: dict[str, str], metric: str = METRIC) -> Frame:
    """The rows of a metric in the task of each language (`text_tasks`)."""
    rows = select(frame, metric=metric)
    return rows[rows["task"] == rows["language"].astype(str).map(tasks)]


def before_after(study: StudyResults) -> Frame:
    """One row per trained cell and seed: `before`, `after`, and what they were `measured_on`.

    Both come from records (`records`), so that a score has the same value throughout a report.
    `before` is the score of the untrained cell of the same seed or, if there is none, the mean over
    other seeds; missing if no untrained cell was evaluated. For a language without any record, they
    come from the training logs (`log`: the held-out sentences scored during training, often fewer).
    """
    import pandas

    axes = CELL[:4]
    scores = text_scores(study.scores, text_tasks(study))
    records = scores.groupby(SEEDED, sort=False)["value"].mean().reset_index(name="after")
    untrained = select(records, strategy="none")
    by_seed = untrained.set_index([*axes, "seed"])["after"].rename("before")
    means = untrained.groupby(axes, sort=False)["after"].mean().rename("mean")
    found = records[records["strategy"] != "none"].join(by_seed, on=[*axes, "seed"])
    found = found.join(means, on=axes).assign(measured_on="records")
    found["before"] = found["before"].fillna(found.pop("mean"))
    frames = [found]
    if METRIC in study.curves:
        logged = study.curves[study.curves[METRIC].notna() & (study.curves["strategy"] != "none")]
        logged = select(logged, event="heldout")
        logged = logged[~logged["language"].isin(found["language"])]
        ends = logged.groupby(SEEDED, sort=False, observed=True)[METRIC]
        own = ends.agg(["first", "last"]).reset_index()
        own = own.rename(columns={"first": "before", "last": "after"})
        frames.append(own.assign(measured_on="log"))
    return pandas.concat(frames, ignore_index=True)
