"""What a recommended cell buys and what it costs: quality, speed, English, hours of training."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lexigraft.report.models import Model, find
from lexigraft.report.recommendation import Recommendation
from lexigraft.report.significance import Column, Compared, differences
from lexigraft.report.study import StudyResults as Study
from lexigraft.report.tables.fragmentation import fragmentation
from lexigraft.report.tables.speed import speeds

if TYPE_CHECKING:
    import pandas

ENGLISH = "english_"


@dataclass(frozen=True)
class Change:
    """A score of the cell beside a baseline's; `test` is None where outputs were not kept."""

    baseline: Model
    column: Column
    value: float
    level: float
    test: Compared | None


@dataclass(frozen=True)
class Speed:
    """How many times as fast as the source model: of the cell, or of another (`of`) that has its
    vocabulary.
    """

    ratio: float
    batch: int
    of: Model


@dataclass(frozen=True)
class Tokens:
    """What the vocabulary does to text; `english_changed` is the share of English sentences that
    are cut differently.
    """

    new: int
    before: float
    after: float
    english_changed: float | None


@dataclass(frozen=True)
class Hours:
    """Training of one cell, a mean over seeds: of so many `processes`, a GPU each if not a CPU."""

    hours: float
    processes: int
    device: str
    tokens: float

    @property
    def on_gpu(self) -> bool:
        """Whether its hours are GPU hours."""
        return not self.device.endswith("CPU")


@dataclass(frozen=True)
class Worth:
    """What the measured cell of a recommendation is worth; what was not measured is empty."""

    quality: tuple[Change, ...]
    english: tuple[Change, ...]
    speed: Speed | None
    tokens: Tokens | None
    training: Hours | None
    lapt_training: Hours | None


def worth(study: Study, summary: "pandas.DataFrame", found: Recommendation) -> Worth:
    """Compare the measured cell with Source and LAPT; all tests are corrected for each other.

    LAPT is the one of the same strategy or, without one, the study's first.
    """
    model, language = found.measured, found.language
    source, lapt = Model(found.source, "source", "none", "none"), _lapt(study, found)
    baselines = [source] if lapt is None else [source, lapt]
    columns = (*found.columns, *found.noise)
    english = [(language, task, ENGLISH + name) for _, task, name in columns]
    rows = [
        *(
            _change(summary, model, baseline, column)
            for column in columns
            for baseline in baselines
        ),
        *(_change(summary, model, source, column) for column in english),
    ]
    changes = [row for row in rows if row is not None]
    tests = {
        (one.baseline, one.column): one
        for one in differences(study, [(model, one.baseline, one.column) for one in changes])
    }
    changes = [replace(one, test=tests.get((one.baseline, one.column))) for one in changes]
    return Worth(
        quality=tuple(one for one in changes if one.column not in english),
        english=tuple(one for one in changes if one.column in english),
        speed=_speed(summary, model, language),
        tokens=_tokens(study, model, language),
        training=_hours(study, model, language),
        lapt_training=None if lapt is None else _hours(study, lapt, language),
    )


def _lapt(study: Study, found: Recommendation) -> Model | None:
    scores = study.scores
    own = scores[(scores["source"] == found.source) & (scores["language"] == found.language)]
    trained = own[(own["initializer"] == "none") & (own["strategy"] != "none")]["strategy"]
    strategies = list(dict.fromkeys(map(str, trained)))
    same = [name for name in strategies if name == found.measured.strategy]
    return next((Model(found.source, "source", "none", name) for name in same + strategies), None)


def _change(
    summary: "pandas.DataFrame", model: Model, baseline: Model, column: Column
) -> Change | None:
    language, task, name = column
    ours, theirs = (
        find(summary, one, language=language, task=task, metric=name) for one in (model, baseline)
    )
    if ours is None or theirs is None:
        return None
    return Change(baseline, column, float(ours["mean"]), float(theirs["mean"]), None)


def _speed(summary: "pandas.DataFrame", model: Model, language: str) -> Speed | None:
    """The speed-up at the smallest batch: of the cell, else of one with its vocabulary."""
    fast = speeds(summary)
    fast = fast[(fast["unit"] != "tokens") & (fast["language"] == language)]
    fast = fast[fast["speed_up"].notna() & (fast["source"] == model.source)]
    fast = fast[fast["vocabulary"] == model.vocabulary].sort_values("batch", kind="stable")
    if fast.empty:
        return None
    # How fast a model writes depends on its vocabulary above all.
    cells = [Model(*map(str, row)) for row in fast[list(model.keys())].itertuples(index=False)]
    at = cells.index(model) if model in cells else 0
    row = fast.iloc[at]
    return Speed(float(row["speed_up"]), int(row["batch"]), cells[at])


def _tokens(study: Study, model: Model, language: str) -> Tokens | None:
    frame = fragmentation(study)
    if frame.empty or "tokens_per_sentence_before" not in frame:
        return None
    key = {"source": model.source, "language": language, "vocabulary": model.vocabulary}
    for axis, name in key.items():
        frame = frame[frame[axis] == name]
    for row in frame.to_dict("records"):
        changed = row.get("english_sentences_changed")
        return Tokens(
            new=int(row["new_tokens"]),
            before=float(row["tokens_per_sentence_before"]),
            after=float(row["tokens_per_sentence"]),
            english_changed=None if changed is None or changed != changed else float(changed),
        )
    return None


def _hours(study: Study, model: Model, language: str) -> Hours | None:
    """From the cards of the cell's seeds."""
    cards = study.training
    for axis, name in (model.keys() | {"language": language}).items():
        cards = cards[cards[axis] == name]
    if cards.empty or "seconds" not in cards or not cards["seconds"].sum() > 0:
        return None
    # A card of an earlier version does not count processes.
    processes = cards["processes"].max() if "processes" in cards else 1
    return Hours(
        hours=float(cards["seconds"].mean()) / 3600,
        processes=1 if processes != processes else int(processes),
        device=str(cards["device"].iloc[0]),
        tokens=float(cards["tokens"].mean()),
    )
