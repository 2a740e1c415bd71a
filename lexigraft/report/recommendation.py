"""The configuration that a study favours for a language and source model, its gains and costs."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from lexigraft.report.findings import vocabulary_numbers
from lexigraft.report.metrics import Metric, metric
from lexigraft.report.models import Column, Model, find, models_of, source_model
from lexigraft.report.paired_tests import LEVEL
from lexigraft.report.score_differences import ScoreDifference, score_differences
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import select
from lexigraft.report.tables.results import quality_columns
from lexigraft.report.tables.speed import speed_up_rows

# Axes in the order of the choices; each choice depends on those before it.
QUESTIONS = {
    "initializer": "Which initializer?",
    "vocabulary": "How many new tokens?",
    "strategy": "Which training strategy?",
}
_ENGLISH = "english_"
# Verdicts of a test, by precedence if there are several.
VERDICTS = ("better", "worse", "no significant difference", "not tested")


class Measure(NamedTuple):
    """The scores of the rivals for one choice on one language, task and metric.

    `means` are their scores, the best first; `leaders` are the best one and those that are not
    shown to be worse; `against_best` are the tests of the other ones, if outputs were recorded.
    """

    column: Column
    means: dict[Model, float]
    leaders: list[Model]
    against_best: dict[Model, ScoreDifference]


class Choice(NamedTuple):
    """The choice on one axis of the grid.

    `rivals` are all compared models, which differ only in this axis; a single one if there was no
    choice. `chosen` leads on most `measures` (ties: the best mean rank); the evidence does not
    decide between it and those `tied`, which lead on as many. Without a choice, or without scores
    to choose by, there are no measures.
    """

    axis: str
    chosen: Model
    rivals: list[Model]
    tied: tuple[Model, ...] = ()
    measures: tuple[Measure, ...] = ()


class Recommendation(NamedTuple):
    """The best configuration of one source model for one language.

    `lexigraft.report.verdict` decides whether to use it at all.

    `model` combines the choices, by the measures in `columns`; on those in `noise`, all scores are
    too low to be informative. `measured` is the cell whose scores show the gains: `model` itself if
    the study has it, otherwise the one of the last choice with measures. `vocabularies` are the
    recorded `findings.vocabulary_numbers` of each vocabulary.
    """

    language: str
    model: Model
    measured: Model
    choices: list[Choice]
    columns: list[Column]
    noise: list[Column]
    vocabularies: dict[str, dict[str, Any]]

    def numbers(self) -> dict[str, Any]:
        """The recommendation in `summary.json`."""
        choices = {}
        for axis, chosen, *others, _ in self.choices:
            compared, tied = ([getattr(model, axis) for model in models] for models in others)
            choices[axis] = {"chosen": getattr(chosen, axis), "compared": compared, "tied": tied}
        measured = self.measured.keys()
        own = {"language": self.language, **self.model.keys()}
        return own | {"measured": measured, "choices": choices}


@dataclass(frozen=True)
class ScoreChange:
    """A score and a baseline's score; `test` is None if outputs were not recorded."""

    baseline: Model
    column: Column
    value: float
    baseline_value: float
    test: ScoreDifference | None = None

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        if self.test is None:
            return "not tested"
        if self.test.corrected >= LEVEL:
            return "no significant difference"
        lower = metric_of(self.column).lower_is_better
        return "better" if (self.value < self.baseline_value) == lower else "worse"


class SpeedGain(NamedTuple):
    """Speed relative to the source model, of the cell or another `model` with its vocabulary."""

    ratio: float
    batch: int
    model: Model


class TrainingTime(NamedTuple):
    """Training time of one cell, a mean over seeds; each of the `processes` has a GPU, if any."""

    hours: float
    processes: int
    device: str
    tokens: float


class Gains(NamedTuple):
    """Gains and costs of the measured cell of a recommendation, if they were measured."""

    quality: list[ScoreChange]
    english: list[ScoreChange]
    speed: SpeedGain | None
    training: TrainingTime | None
    lapt_training: TrainingTime | None

    @property
    def outcomes(self) -> dict[Model, str]:
        """For each baseline, the verdicts on several measures combined into one, or `mixed`."""
        verdicts: dict[Model, set[str]] = {}
        for one in self.quality:
            verdicts.setdefault(one.baseline, set()).add(one.verdict)
        return {
            baseline: "mixed"
            if {"better", "worse"} <= known
            else next(verdict for verdict in VERDICTS if verdict in known)
            for baseline, known in verdicts.items()
        }


def recommend(study: StudyResults) -> list[Recommendation]:
    """For each source model and language with new tokens: the configuration that scores favour.

    Axes are chosen one after the other, since a grid is rarely complete. Rivals differ only in one
    axis. On every measure that all of them have, the leaders are the best one and those that are
    not shown to be worse (paired bootstrap, corrected within the choice). The rival that leads on
    most measures is chosen. So a measure that does not separate rivals has no influence, and if no
    measure does, nothing is decided.
    """
    key = ("recommendations", *sorted(study.item.where.items()))
    if key not in study.read:
        study.read[key] = _recommend(study)
    return study.read[key]


def _recommend(study: StudyResults) -> list[Recommendation]:
    every, vocabularies = quality_columns(study), vocabulary_numbers(study)
    found = []
    for source, language in product(study.order("source"), study.order("language")):
        cells = _cells(study, source, language)
        new = [cell for cell in cells if not cell.baseline]
        candidates = [cell for cell in new if cell.strategy != "none"] or new
        columns = [column for column in every if column[0] == language]
        if not candidates or not columns:
            continue
        noise = [column for column in columns if study.is_noise(source, column)]
        columns = [column for column in columns if column not in noise]
        choices: list[Choice] = []
        model = candidates[0]
        for axis in QUESTIONS:
            before = model if choices else None
            rivals = _rivals(candidates, axis, before, study.reference_strategy)
            choice = _choose(study, axis, rivals, columns, model)
            # The first choice determines the starting point of the others.
            value = getattr(choice.chosen, axis)
            model = replace(model, **{axis: value}) if choices else choice.chosen
            choices.append(choice)
        compared = [choice.chosen for choice in choices if choice.measures] or [choices[0].chosen]
        measured = model if model in candidates else compared[-1]
        own = {row["vocabulary"]: row for row in vocabularies
               if (row["source"], row["language"]) == (source, language)}  # fmt: skip
        found.append(Recommendation(language, model, measured, choices, columns, noise, own))
    return found


def gains(study: StudyResults, found: Recommendation) -> Gains:
    """Compare the measured cell with Source and LAPT; all tests are corrected for each other.

    LAPT is the one with the same strategy or, if there is none, the study's first one trained on
    text only. Scores that are noise are not compared.
    """
    model, language = found.measured, found.language
    source = source_model(model.source)
    trained = [
        cell
        for cell in _cells(study, model.source, language)
        if cell.baseline
        and not cell.is_source
        and (cell.strategy == model.strategy or study.is_of_text_alone(cell.strategy))
    ]
    lapt = sorted(trained, key=lambda cell: cell.strategy != model.strategy)[:1]
    english = [(language, task, _ENGLISH + name) for _, task, name in found.columns]
    changes = []
    for column, baseline in (*product(found.columns, [source, *lapt]), *product(english, [source])):
        means = _means(study, [model, baseline], column)
        if len(means) == 2:
            changes.append(ScoreChange(baseline, column, means[model], means[baseline]))
    comparisons = [(model, one.baseline, one.column) for one in changes]
    tests = {(one.baseline, one.column): one for one in score_differences(study, comparisons)}
    changes = [replace(one, test=tests.get((one.baseline, one.column))) for one in changes]
    return Gains(
        quality=[one for one in changes if one.column not in english],
        english=[one for one in changes if one.column in english],
        speed=_speed_gain(study, model, language),
        training=_training_time(study, model, language),
        lapt_training=_training_time(study, lapt[0], language) if lapt else None,
    )


def _cells(study: StudyResults, source: str, language: str) -> list[Model]:
    return list(dict.fromkeys(models_of(select(study.scores, source=source, language=language))))


def _rivals(
    candidates: list[Model], axis: str, model: Model | None, reference: str | None
) -> list[Model]:
    """A set of candidates that differ only in one axis.

    Sets of two or more are preferred, then the one that agrees best with the `model` chosen so far,
    then the largest, then the one with the reference strategy.
    """
    others = [other for other in QUESTIONS if other != axis]
    groups: dict[tuple[str, ...], list[Model]] = {}
    for candidate in candidates:
        groups.setdefault(tuple(getattr(candidate, o) for o in others), []).append(candidate)

    def preference(group: list[Model]) -> tuple[bool, int, int, bool]:
        agrees = sum(getattr(group[0], other) == getattr(model, other, None) for other in others)
        return len(group) > 1, agrees, len(group), group[0].strategy == reference

    return max(groups.values(), key=preference)


def _choose(
    study: StudyResults, axis: str, rivals: list[Model], columns: list[Column], before: Model
) -> Choice:
    """Choose the rival that leads on most measures; without measures, keep the previous choice."""
    scores = {column: _means(study, rivals, column) for column in columns}
    # A rival without any score must not exclude the measures of the others.
    rivals = [one for one in rivals if any(one in means for means in scores.values())] or rivals
    shared = {column: means for column, means in scores.items() if len(means) == len(rivals) > 1}
    if not shared:
        same = (one for one in rivals if getattr(one, axis) == getattr(before, axis))
        return Choice(axis, next(same, rivals[0]), rivals)
    comparisons = [(model, best, column) for column, (best, *others) in shared.items()
                   for model in others]  # fmt: skip
    tests = score_differences(study, comparisons)
    measures = []
    for column, means in shared.items():
        against = {one.model: one for one in tests if one.column == column}
        leaders = [one for one in means if one not in against or against[one].corrected >= LEVEL]
        measures.append(Measure(column, means, leaders, against))

    def rank(model: Model) -> tuple[int, int]:
        return (-sum(model in one.leaders for one in measures),
                sum(list(one.means).index(model) for one in measures))  # fmt: skip

    chosen, *others = sorted(rivals, key=rank)
    tied = tuple(model for model in others if rank(model)[0] == rank(chosen)[0])
    return Choice(axis, chosen, rivals, tied, tuple(measures))


def _means(study: StudyResults, models: list[Model], column: Column) -> dict[Model, float]:
    """The score of each model that has one, the best first."""
    rows = {model: find(study, model, *column) for model in models}
    found = {model: float(row["mean"]) for model, row in rows.items() if row is not None}
    better_first = not metric(column[2]).lower_is_better
    return dict(sorted(found.items(), key=lambda pair: pair[1], reverse=better_first))


def _speed_gain(study: StudyResults, model: Model, language: str) -> SpeedGain | None:
    """The speed-up at the smallest batch: of the cell, else of one with its vocabulary.

    Generation speed depends mainly on the vocabulary.
    """
    rows = select(speed_up_rows(study), language=language, source=model.source,
                  vocabulary=model.vocabulary).sort_values("batch", kind="stable")  # fmt: skip
    if rows.empty:
        return None
    cells = models_of(rows)
    at = cells.index(model) if model in cells else 0
    return SpeedGain(float(rows["speed_up"].iloc[at]), int(rows["batch"].iloc[at]), cells[at])


def _training_time(study: StudyResults, model: Model, language: str) -> TrainingTime | None:
    """The training time from the cards of the cell's seeds."""
    cards = select(study.training, **model.keys(), language=language)
    if cards.empty or not cards["seconds"].sum() > 0:
        return None
    return TrainingTime(
        hours=float(cards["seconds"].mean()) / 3600,
        processes=int(cards["processes"].max()),
        device=str(cards["device"].iloc[0]),
        tokens=float(cards["tokens"].mean()),
    )


def metric_of(column: Column) -> Metric:
    """The metric of a column, without the prefix of scores in English."""
    return metric(column[2].removeprefix(_ENGLISH))
