"""What a study recommends for a language and source model, and what that gains and costs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lexigraft.report.findings import speed_up_rows, vocabulary_numbers
from lexigraft.report.metrics import metric
from lexigraft.report.models import Column, Model, find
from lexigraft.report.paired_tests import LEVEL
from lexigraft.report.score_differences import ScoreDifference, score_differences
from lexigraft.report.study import StudyResults
from lexigraft.report.tables.results import quality_columns

if TYPE_CHECKING:
    import pandas

# In the order of the choices; each is made under those before it.
AXES = ("initializer", "vocabulary", "strategy")
ENGLISH = "english_"


@dataclass(frozen=True)
class Measure:
    """How the rivals for one choice do on one language, task and metric.

    Attributes
    ----------
    means
        The score of each rival, the best first.
    leaders
        The best one, and those that are not shown to be worse.
    against_best
        Tests of the other rivals against the best one; a rival without outputs has none.
    """

    column: Column
    means: dict[Model, float]
    leaders: tuple[Model, ...]
    against_best: dict[Model, ScoreDifference]


@dataclass(frozen=True)
class Choice:
    """The choice on one axis of the grid.

    Attributes
    ----------
    chosen
        The rival that leads on most measures; among several, the one with the best mean rank.
    tied
        Others that lead on as many: the evidence does not decide between them and the chosen one.
    rivals
        All that were compared, which differ in this axis alone; one where there was no choice.
    measures
        Empty where there was no choice, or no score to choose by.
    """

    axis: str
    chosen: Model
    tied: tuple[Model, ...] = ()
    rivals: tuple[Model, ...] = ()
    measures: tuple[Measure, ...] = ()

    def value(self, model: Model) -> str:
        """What a rival has on this axis."""
        return getattr(model, self.axis)


@dataclass(frozen=True)
class Recommendation:
    """The recommended configuration of one source model for one language.

    Attributes
    ----------
    model
        The configuration that the choices add up to.
    measured
        The cell whose scores say what it gains: `model` itself where the study has it, else the one
        of the last choice with measures.
    columns
        The measures that choices were made by.
    noise
        Columns on which every model is so low that the score says nothing.
    """

    source: str
    language: str
    model: Model
    measured: Model
    choices: tuple[Choice, ...]
    columns: tuple[Column, ...]
    noise: tuple[Column, ...]

    def numbers(self) -> dict[str, Any]:
        """The recommendation in `summary.json`."""
        return {
            "language": self.language,
            **self.model.keys(),
            "measured": self.measured.keys(),
            "choices": {
                choice.axis: {
                    "chosen": choice.value(choice.chosen),
                    "compared": [choice.value(rival) for rival in choice.rivals],
                    "tied": [choice.value(rival) for rival in choice.tied],
                }
                for choice in self.choices
            },
        }


@dataclass(frozen=True)
class ScoreChange:
    """A score beside a baseline's; `test` is None where outputs were not recorded."""

    baseline: Model
    column: Column
    value: float
    baseline_value: float
    test: ScoreDifference | None = None

    @property
    def verdict(self) -> str:
        """`better`, `worse`, `no significant difference` or `not tested`."""
        if self.test is None:
            return "not tested"
        if self.test.corrected >= LEVEL:
            return "no significant difference"
        lower = metric(self.column[2].removeprefix(ENGLISH)).lower_is_better
        return "better" if (self.value < self.baseline_value) == lower else "worse"


@dataclass(frozen=True)
class SpeedGain:
    """Speed over the source model's, of the cell or of another `model` with its vocabulary."""

    ratio: float
    batch: int
    model: Model


@dataclass(frozen=True)
class TrainingTime:
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
class Gains:
    """Gains and costs of the measured cell of a recommendation; empty where nothing was measured.

    `vocabulary` are its numbers from `findings.vocabulary_numbers`.
    """

    quality: tuple[ScoreChange, ...]
    english: tuple[ScoreChange, ...]
    speed: SpeedGain | None
    vocabulary: dict[str, Any] | None
    training: TrainingTime | None
    lapt_training: TrainingTime | None


def recommend(study: StudyResults, summary: "pandas.DataFrame") -> list[Recommendation]:
    """For each source model and language with new tokens: the configuration that scores favour.

    One axis is chosen after the other, for a grid is seldom full. Rivals differ in that axis alone.
    On every measure that all of them have, the best one and those that are not shown to be worse
    (paired bootstrap, corrected within the choice) lead. The one that leads on most measures is
    chosen. So a measure that does not separate rivals has no say, and where none does, nothing is
    decided.
    """
    columns = quality_columns(study, summary)
    found = (
        _recommend(study, summary, source, language, [one for one in columns if one[0] == language])
        for source in study.order("source")
        for language in study.order("language")
    )
    return [one for one in found if one is not None]


def gains(study: StudyResults, summary: "pandas.DataFrame", found: Recommendation) -> Gains:
    """Compare the measured cell with Source and LAPT; all tests are corrected for each other.

    LAPT is the one of the same strategy or, without one, the study's first.
    """
    model, language = found.measured, found.language
    source, lapt = Model(found.source, "source", "none", "none"), _lapt(study, found)
    columns = (*found.columns, *found.noise)
    english = [(language, task, ENGLISH + name) for _, task, name in columns]
    pairs = [(one, column) for column in columns for one in (source, lapt) if one is not None]
    pairs += [(source, column) for column in english]
    changes = [one for pair in pairs if (one := _score_change(summary, model, *pair)) is not None]
    comparisons = [(model, one.baseline, one.column) for one in changes]
    tests = {(one.baseline, one.column): one for one in score_differences(study, comparisons)}
    changes = [replace(one, test=tests.get((one.baseline, one.column))) for one in changes]
    return Gains(
        quality=tuple(one for one in changes if one.column not in english),
        english=tuple(one for one in changes if one.column in english),
        speed=_speed_gain(summary, model, language),
        vocabulary=vocabulary_of(study, language, model),
        training=_training_time(study, model, language),
        lapt_training=None if lapt is None else _training_time(study, lapt, language),
    )


def vocabulary_of(study: StudyResults, language: str, model: Model) -> dict[str, Any] | None:
    """The `findings.vocabulary_numbers` of a model's vocabulary; None where they are missing."""
    key = {"source": model.source, "language": language, "vocabulary": model.vocabulary}
    return next((row for row in vocabulary_numbers(study) if key.items() <= row.items()), None)


def _recommend(
    study: StudyResults,
    summary: "pandas.DataFrame",
    source: str,
    language: str,
    columns: list[Column],
) -> Recommendation | None:
    scores = study.scores
    own = scores[(scores["source"] == source) & (scores["language"] == language)]
    axes = ["source", "vocabulary", "initializer", "strategy"]
    cells = [Model(*map(str, row)) for row in own[axes].drop_duplicates().itertuples(index=False)]
    new = [cell for cell in cells if not cell.baseline]
    candidates = [cell for cell in new if cell.strategy != "none"] or new
    noise = tuple(column for column in columns if _is_noise(summary, cells, column))
    informative = tuple(column for column in columns if column not in noise)
    if not candidates or not columns:
        return None
    choices: list[Choice] = []
    model = candidates[0]
    for axis in AXES:
        rivals = _rivals(candidates, axis, model, study.reference_strategy, bool(choices))
        choice = _choose(study, summary, axis, rivals, informative, model)
        # The first choice says where the others start from.
        value = choice.value(choice.chosen)
        model = replace(model, **{axis: value}) if choices else choice.chosen
        choices.append(choice)
    compared = [choice.chosen for choice in choices if choice.measures]
    fallback = compared[-1] if compared else choices[0].chosen
    measured = model if model in candidates else fallback
    return Recommendation(source, language, model, measured, tuple(choices), informative, noise)


def _is_noise(summary: "pandas.DataFrame", models: list[Model], column: Column) -> bool:
    """Whether no model reaches a score that says anything."""
    low, means = metric(column[2]).noise, _means(summary, models, column).values()
    return low is not None and bool(means) and max(means) < low


def _rivals(
    candidates: list[Model], axis: str, model: Model, reference: str | None, chosen: bool
) -> list[Model]:
    """The largest set of candidates that differ in one axis alone.

    Of several the one that agrees with what was chosen so far; before anything was chosen, with
    the reference strategy.
    """
    others = [other for other in AXES if other != axis]
    groups: dict[tuple[str, ...], list[Model]] = {}
    for candidate in candidates:
        groups.setdefault(tuple(getattr(candidate, o) for o in others), []).append(candidate)

    def preference(group: list[Model]) -> tuple[bool, int, int, bool]:
        agrees = sum(getattr(group[0], other) == getattr(model, other) for other in others)
        is_reference = group[0].strategy == reference
        return len(group) > 1, agrees if chosen else 0, len(group), is_reference

    return max(groups.values(), key=preference)


def _choose(
    study: StudyResults,
    summary: "pandas.DataFrame",
    axis: str,
    rivals: list[Model],
    columns: tuple[Column, ...],
    before: Model,
) -> Choice:
    """The choice of who leads on most measures; without measures, of what was chosen before."""
    scores = {column: _means(summary, rivals, column) for column in columns}
    # A rival without any score does not exclude the measures of the others.
    rivals = [one for one in rivals if any(one in means for means in scores.values())] or rivals
    shared = {column: means for column, means in scores.items() if len(means) == len(rivals) > 1}
    if not shared:
        same = (one for one in rivals if getattr(one, axis) == getattr(before, axis))
        return Choice(axis, next(same, rivals[0]), rivals=tuple(rivals))
    best = {column: next(iter(means)) for column, means in shared.items()}
    tests = score_differences(
        study,
        [(model, best[column], column) for column, means in shared.items() for model in means
         if model != best[column]],
    )  # fmt: skip
    measures = []
    for column, means in shared.items():
        against = {one.model: one for one in tests if one.column == column}
        leaders = (one for one in means if one not in against or against[one].corrected >= LEVEL)
        measures.append(Measure(column, means, tuple(leaders), against))
    votes = {model: sum(model in one.leaders for one in measures) for model in rivals}
    leading = [model for model in rivals if votes[model] == max(votes.values())]
    leading.sort(key=_mean_rank(measures))
    return Choice(axis, leading[0], tuple(leading[1:]), tuple(rivals), tuple(measures))


def _means(summary: "pandas.DataFrame", models: list[Model], column: Column) -> dict[Model, float]:
    """The score of each model that has one, the best first."""
    language, task, name = column
    rows = {one: find(summary, one, language=language, task=task, metric=name) for one in models}
    found = {model: float(row["mean"]) for model, row in rows.items() if row is not None}
    better_first = not metric(name).lower_is_better
    return dict(sorted(found.items(), key=lambda pair: pair[1], reverse=better_first))


def _mean_rank(measures: list[Measure]) -> Callable[[Model], float]:
    places = [list(one.means) for one in measures]
    return lambda model: sum(place.index(model) for place in places) / len(places)


def _lapt(study: StudyResults, found: Recommendation) -> Model | None:
    scores = study.scores
    own = scores[(scores["source"] == found.source) & (scores["language"] == found.language)]
    trained = own[(own["initializer"] == "none") & (own["strategy"] != "none")]["strategy"]
    strategies = list(dict.fromkeys(map(str, trained)))
    same = [name for name in strategies if name == found.measured.strategy]
    return next((Model(found.source, "source", "none", name) for name in same + strategies), None)


def _score_change(
    summary: "pandas.DataFrame", model: Model, baseline: Model, column: Column
) -> ScoreChange | None:
    means = _means(summary, [model, baseline], column)
    if len(means) < 2:
        return None
    return ScoreChange(baseline, column, means[model], means[baseline])


def _speed_gain(summary: "pandas.DataFrame", model: Model, language: str) -> SpeedGain | None:
    """The speed-up at the smallest batch: of the cell, else of one with its vocabulary."""
    rows = speed_up_rows(summary)
    for axis, name in (("language", language), ("source", model.source),
                       ("vocabulary", model.vocabulary)):  # fmt: skip
        rows = rows[rows[axis] == name]
    if rows.empty:
        return None
    # How fast a model writes depends on its vocabulary above all.
    rows = rows.sort_values("batch", kind="stable")
    cells = [Model(*map(str, row)) for row in rows[list(model.keys())].itertuples(index=False)]
    at = cells.index(model) if model in cells else 0
    row = rows.iloc[at]
    return SpeedGain(float(row["speed_up"]), int(row["batch"]), cells[at])


def _training_time(study: StudyResults, model: Model, language: str) -> TrainingTime | None:
    """From the cards of the cell's seeds."""
    cards = study.training
    for axis, name in (model.keys() | {"language": language}).items():
        cards = cards[cards[axis] == name]
    if cards.empty or "seconds" not in cards or not cards["seconds"].sum() > 0:
        return None
    # A card of an earlier version does not count processes.
    processes = cards["processes"].max() if "processes" in cards else 1
    return TrainingTime(
        hours=float(cards["seconds"].mean()) / 3600,
        processes=1 if processes != processes else int(processes),
        device=str(cards["device"].iloc[0]),
        tokens=float(cards["tokens"].mean()),
    )
