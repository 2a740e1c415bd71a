"""What a study recommends for a language and source model, and what that gains and costs."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from lexigraft.report.findings import vocabulary_numbers
from lexigraft.report.metrics import Metric, metric
from lexigraft.report.models import Column, Model, find, models_of
from lexigraft.report.names import listed, row_name
from lexigraft.report.paired_tests import LEVEL, RESAMPLES, effect_text, p_text
from lexigraft.report.score_differences import ScoreDifference, score_differences
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import Frame, select
from lexigraft.report.table import number
from lexigraft.report.tables.results import quality_columns
from lexigraft.report.tables.speed import speed_up_rows

METHOD = (
    "Each question compares the configurations that differ in it alone, on every measure. A "
    "configuration leads on a measure if it is the best or is not shown to be worse than the best "
    f"(paired bootstrap over test examples and seeds, {RESAMPLES:,} resamples, p below {LEVEL} "
    "after Benjamini-Hochberg correction for all comparisons of the question). The one that leads "
    "on most measures is recommended; if several do, the one with the best mean rank is, and the "
    "question counts as not decided. Brackets hold 95 % intervals, which may include zero at a p "
    "below 0.05 where the resampled differences are skewed; d is Cohen's effect size over examples."
)
# Axes in the order of the choices, each made under those before it.
_QUESTIONS = {
    "initializer": "Which initializer?",
    "vocabulary": "How many new tokens?",
    "strategy": "Which training strategy?",
}
_ENGLISH = "english_"
_VERDICTS = ("better", "worse", "no significant difference", "not tested")


class Measure(NamedTuple):
    """How the rivals for one choice do on one language, task and metric.

    `means` are their scores, the best first; `leaders` the best one and those that are not shown to
    be worse; `against_best` the tests of the others, where outputs were recorded.
    """

    column: Column
    means: dict[Model, float]
    leaders: list[Model]
    against_best: dict[Model, ScoreDifference]


class Choice(NamedTuple):
    """The choice on one axis of the grid.

    `rivals` are all that were compared, which differ in this axis alone; one where there was no
    choice. `chosen` leads on most `measures`, among several with the best mean rank; the evidence
    does not decide between it and those `tied`, which lead on as many. Without a choice, or without
    scores to choose by, there are no measures.
    """

    axis: str
    chosen: Model
    rivals: list[Model]
    tied: tuple[Model, ...] = ()
    measures: tuple[Measure, ...] = ()


class Recommendation(NamedTuple):
    """The recommended configuration of one source model for one language.

    `model` is what the choices add up to, by the measures in `columns`; on those in `noise` every
    model is so low that the score says nothing. `measured` is the cell whose scores say what it
    gains: `model` itself where the study has it, else the one of the last choice with measures.
    `vocabularies` are the `findings.vocabulary_numbers` of each, where they are recorded.
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
        lower = _metric(self.column).lower_is_better
        return "better" if (self.value < self.baseline_value) == lower else "worse"

    @property
    def text(self) -> str:
        """The change as a sentence."""
        decimals = _metric(self.column).decimals
        value, level = (number(score, decimals) for score in (self.value, self.baseline_value))
        test = f"; {_test(self.test)}, {effect_text(self.test)}" if self.test else ""
        return (f"{_title(self.column)}: {self.verdict}, {value} against {level} for "
                f"{_baseline(self.baseline)}{test}.")  # fmt: skip


class SpeedGain(NamedTuple):
    """Speed over the source model's, of the cell or of another `model` with its vocabulary."""

    ratio: float
    batch: int
    model: Model


class TrainingTime(NamedTuple):
    """Training of one cell, a mean over seeds: of so many `processes`, a GPU each if not a CPU."""

    hours: float
    processes: int
    device: str
    tokens: float

    @property
    def text(self) -> str:
        """The time of all processes together, on what, for how many tokens."""
        total, tokens = self.hours * self.processes, f"{number(self.tokens, 0)} tokens"
        if not self.device.endswith("CPU"):
            return f"{number(total, 2)} GPU-hours ({self.processes} × {self.device}, {tokens})"
        short = total < 1 / 60
        time = f"{number(3600 * total, 1)} seconds" if short else f"{number(60 * total, 1)} minutes"
        return f"{time} of {self.device} ({tokens})"


class Gains(NamedTuple):
    """Gains and costs of the measured cell of a recommendation, where they were measured."""

    quality: list[ScoreChange]
    english: list[ScoreChange]
    speed: SpeedGain | None
    training: TrainingTime | None
    lapt_training: TrainingTime | None


class Question(NamedTuple):
    """A question, its answer in one sentence, and the evidence for it, a sentence each."""

    title: str
    answer: str
    evidence: list[str]


class RecommendationText(NamedTuple):
    """The text for one language and source model; `numbers` are for `summary.json`."""

    numbers: dict[str, Any]
    heading: str
    answer: str
    questions: list[Question]


def recommend(study: StudyResults, summary: Frame) -> list[Recommendation]:
    """For each source model and language with new tokens: the configuration that scores favour.

    One axis is chosen after the other, for a grid is seldom full. Rivals differ in that axis alone.
    On every measure that all of them have, the best one and those that are not shown to be worse
    (paired bootstrap, corrected within the choice) lead. The one that leads on most measures is
    chosen. So a measure that does not separate rivals has no say, and where none does, nothing is
    decided.
    """
    every, vocabularies = quality_columns(study, summary), vocabulary_numbers(study)
    found = []
    for source, language in product(study.order("source"), study.order("language")):
        cells = _cells(study, source, language)
        new = [cell for cell in cells if not cell.baseline]
        candidates = [cell for cell in new if cell.strategy != "none"] or new
        columns = [column for column in every if column[0] == language]
        if not candidates or not columns:
            continue
        noise = []
        for column in columns:
            low, means = metric(column[2]).noise, _means(summary, cells, column).values()
            if low is not None and means and max(means) < low:
                noise.append(column)
        columns = [column for column in columns if column not in noise]
        choices: list[Choice] = []
        model = candidates[0]
        for axis in _QUESTIONS:
            before = model if choices else None
            rivals = _rivals(candidates, axis, before, study.reference_strategy)
            choice = _choose(study, summary, axis, rivals, columns, model)
            # The first choice says where the others start from.
            value = getattr(choice.chosen, axis)
            model = replace(model, **{axis: value}) if choices else choice.chosen
            choices.append(choice)
        compared = [choice.chosen for choice in choices if choice.measures] or [choices[0].chosen]
        measured = model if model in candidates else compared[-1]
        own = {row["vocabulary"]: row for row in vocabularies
               if (row["source"], row["language"]) == (source, language)}  # fmt: skip
        found.append(Recommendation(language, model, measured, choices, columns, noise, own))
    return found


def gains(study: StudyResults, summary: Frame, found: Recommendation) -> Gains:
    """Compare the measured cell with Source and LAPT; all tests are corrected for each other.

    LAPT is the one of the same strategy or, without one, the study's first.
    """
    model, language = found.measured, found.language
    source = Model(model.source, "source", "none", "none")
    trained = [cell for cell in _cells(study, model.source, language)
               if cell.baseline and not cell.is_source]  # fmt: skip
    lapt = sorted(trained, key=lambda cell: cell.strategy != model.strategy)[:1]
    columns = [*found.columns, *found.noise]
    english = [(language, task, _ENGLISH + name) for _, task, name in columns]
    changes = []
    for column, baseline in (*product(columns, [source, *lapt]), *product(english, [source])):
        means = _means(summary, [model, baseline], column)
        if len(means) == 2:
            changes.append(ScoreChange(baseline, column, means[model], means[baseline]))
    comparisons = [(model, one.baseline, one.column) for one in changes]
    tests = {(one.baseline, one.column): one for one in score_differences(study, comparisons)}
    changes = [replace(one, test=tests.get((one.baseline, one.column))) for one in changes]
    return Gains(
        quality=[one for one in changes if one.column not in english],
        english=[one for one in changes if one.column in english],
        speed=_speed_gain(summary, model, language),
        training=_training_time(study, model, language),
        lapt_training=_training_time(study, lapt[0], language) if lapt else None,
    )


def recommendation_texts(study: StudyResults, summary: Frame) -> list[RecommendationText]:
    """A text for every source model and language of a study that have cells with new tokens."""
    return [_text(study, one, gains(study, summary, one)) for one in recommend(study, summary)]


def _cells(study: StudyResults, source: str, language: str) -> list[Model]:
    return list(dict.fromkeys(models_of(select(study.scores, source=source, language=language))))


def _rivals(
    candidates: list[Model], axis: str, model: Model | None, reference: str | None
) -> list[Model]:
    """The largest set of candidates that differ in one axis alone.

    Of several the one that agrees with the `model` chosen so far; before anything was chosen, with
    the reference strategy.
    """
    others = [other for other in _QUESTIONS if other != axis]
    groups: dict[tuple[str, ...], list[Model]] = {}
    for candidate in candidates:
        groups.setdefault(tuple(getattr(candidate, o) for o in others), []).append(candidate)

    def preference(group: list[Model]) -> tuple[bool, int, int, bool]:
        agrees = sum(getattr(group[0], other) == getattr(model, other, None) for other in others)
        return len(group) > 1, agrees, len(group), group[0].strategy == reference

    return max(groups.values(), key=preference)


def _choose(
    study: StudyResults,
    summary: Frame,
    axis: str,
    rivals: list[Model],
    columns: list[Column],
    before: Model,
) -> Choice:
    """The choice of who leads on most measures; without measures, of what was chosen before."""
    scores = {column: _means(summary, rivals, column) for column in columns}
    # A rival without any score does not exclude the measures of the others.
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


def _means(summary: Frame, models: list[Model], column: Column) -> dict[Model, float]:
    """The score of each model that has one, the best first."""
    rows = {model: find(summary, model, *column) for model in models}
    found = {model: float(row["mean"]) for model, row in rows.items() if row is not None}
    better_first = not metric(column[2]).lower_is_better
    return dict(sorted(found.items(), key=lambda pair: pair[1], reverse=better_first))


def _speed_gain(summary: Frame, model: Model, language: str) -> SpeedGain | None:
    """The speed-up at the smallest batch: of the cell, else of one with its vocabulary.

    How fast a model writes depends on its vocabulary above all.
    """
    rows = select(speed_up_rows(summary), language=language, source=model.source,
                  vocabulary=model.vocabulary).sort_values("batch", kind="stable")  # fmt: skip
    if rows.empty:
        return None
    cells = models_of(rows)
    at = cells.index(model) if model in cells else 0
    return SpeedGain(float(rows["speed_up"].iloc[at]), int(rows["batch"].iloc[at]), cells[at])


def _training_time(study: StudyResults, model: Model, language: str) -> TrainingTime | None:
    """From the cards of the cell's seeds."""
    cards = select(study.training, **model.keys(), language=language)
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


def _text(study: StudyResults, found: Recommendation, gained: Gains) -> RecommendationText:
    model = found.model
    trained = f"trained with {model.strategy}" if model.strategy != "none" else "not trained"
    answer = (f"{row_name(model.initializer, model.strategy)}, "
              f"{_value(found, 'vocabulary', model)}, {trained}.")  # fmt: skip
    if not any(choice.measures for choice in found.choices):
        answer = f"This study does not decide. It includes {answer}"
    elif undecided := [choice.axis for choice in found.choices if choice.tied]:
        answer += f" The evidence does not decide on the {listed(undecided)}."
    # A reader of the first sentence alone must know whether a baseline does as well.
    changes = [one for one in gained.quality if one.column in found.columns]
    source = {one.verdict for one in changes if one.baseline.is_source}
    lapt = {one.verdict for one in changes if not one.baseline.is_source}
    if source and "better" not in source:
        answer += " It is not shown to be better than the source model."
    if "worse" in lapt and "better" not in lapt:
        answer += " Training without new tokens (LAPT) scores better."
    questions = [
        *(_choice(found, choice) for choice in found.choices),
        _gains(found, gained, changes),
        _costs(gained, found.vocabularies.get(found.measured.vocabulary, {})),
        _certainty(study, found, gained),
    ]
    heading = f"{study.language(found.language)}, {model.source}"
    return RecommendationText(found.numbers(), heading, answer, questions)


def _choice(found: Recommendation, choice: Choice) -> Question:
    title, chosen, measures = _QUESTIONS[choice.axis], choice.chosen, choice.measures
    names = {rival: _value(found, choice.axis, rival) for rival in choice.rivals}
    others = [name for rival, name in names.items() if rival != chosen]
    if not others:
        return Question(title, f"{names[chosen]}: the study has no alternative to compare.", [])
    if not measures:
        every = listed([*names.values()])
        return Question(title, f"Not decided: no informative measure compares {every}.", [])
    of = f"{sum(chosen in one.leaders for one in measures)} of {_counted(len(measures), 'measure')}"
    answer = f"{names[chosen]} leads on {of}, more than {listed(others)}."
    if choice.tied:
        tied = listed([names[rival] for rival in (chosen, *choice.tied)])
        answer = f"Not decided: {tied} each lead on {of}; {names[chosen]} has the best mean rank."
    same = [f"{axis} {getattr(chosen, axis)}" for axis in _QUESTIONS if axis != choice.axis]
    evidence = [f"All with {listed(same)}."]
    for column, means, _, against_best in measures:
        # `bits per byte (perplexity): Align 1.43; Mean 1.45 (+0.02 [0.01 to 0.03], p = 0.01)`
        ranking = []
        for place, (model, mean) in enumerate(means.items()):
            test = _test(against_best[model]) if model in against_best else "not tested"
            text = f"{names[model]} {number(mean, metric(column[2]).decimals)}"
            ranking.append(f"{text} ({test})" if place else text)
        evidence.append(f"{_title(column)}: {'; '.join(ranking)}.")
    return Question(title, answer, evidence)


def _value(found: Recommendation, axis: str, model: Model) -> str:
    """What a model has on an axis; a vocabulary with its new tokens, where these are recorded."""
    if axis == "initializer":
        return row_name(model.initializer, model.strategy)
    if axis == "strategy":
        return model.strategy if model.strategy != "none" else "no training"
    row = found.vocabularies.get(model.vocabulary)
    return model.vocabulary + (f" ({number(row['new_tokens'], 0)} new tokens)" if row else "")


def _gains(found: Recommendation, gained: Gains, changes: list[ScoreChange]) -> Question:
    sentences = []
    for baseline in dict.fromkeys(one.baseline for one in changes):
        own = [one for one in changes if one.baseline == baseline]
        sentences.append(f"Compared with {_baseline(baseline)}: {_verdicts(own)}.")
    if not sentences:
        sentences.append("There is no informative score of quality.")
    if (speed := gained.speed) is not None:
        other = "" if speed.model == found.measured else f"; measured on {_cell(speed.model)}"
        sentences.append(f"It writes the same text {number(speed.ratio, 2)} times as fast as the "
                         f"source model (batch {speed.batch}{other}).")  # fmt: skip
    evidence = []
    if found.measured != found.model:
        evidence.append(f"Measured on {_cell(found.measured)}: the recommended configuration "
                        "is not a cell of the study.")  # fmt: skip
    evidence += [one.text for one in gained.quality]
    if row := found.vocabularies.get(found.measured.vocabulary):
        before, after = (number(row[f"tokens_per_sentence_{when}"], 1)
                         for when in ("before", "after"))  # fmt: skip
        evidence.append(f"Tokens per sentence: {before} before, {after} after.")
    return Question("What does it gain?", " ".join(sentences), evidence)


def _costs(gained: Gains, vocabulary: dict[str, Any]) -> Question:
    evidence = [one.text for one in gained.english]
    answer = f"English: {_verdicts(gained.english) or 'not measured'}."
    if (changed := vocabulary.get("english_sentences_changed")) is not None:
        evidence.append(f"English sentences tokenized differently: {number(100 * changed, 1)} %.")
    if gained.training is not None:
        answer += f" Training: {gained.training.text} per cell."
        if gained.lapt_training is not None:
            evidence.append(f"Training of LAPT: {gained.lapt_training.text} per cell.")
        evidence.append("Training times are those on the cells' cards, without initialization and "
                        "evaluation.")  # fmt: skip
    return Question("What does it cost?", answer, evidence)


def _certainty(study: StudyResults, found: Recommendation, gained: Gains) -> Question:
    """What limits the answers: seeds, examples, and scores that say nothing."""
    tests = [one.test for one in (*gained.quality, *gained.english) if one.test is not None]
    tests += [test for choice in found.choices for one in choice.measures
              for test in one.against_best.values()]  # fmt: skip
    evidence = []
    if tests:
        counts = [test.examples for test in tests]
        ends = dict.fromkeys(number(end, 0) for end in (min(counts), max(counts)))
        evidence.append(f"Test examples per comparison: {' to '.join(ends)}.")
    if any(not test.freedom for test in tests):
        evidence.append("Where no model has several seeds, a comparison is about other examples "
                        "alone, not about other seeds.")  # fmt: skip
    if found.noise:
        noise = listed([*map(_title, found.noise)])
        evidence.append(f"Not counted, because every model scores too low: {noise}.")
    answer = f"{_counted(len(study.seeds), 'seed')}, {_counted(len(found.columns), 'measure')}"
    measures = listed([*map(_title, found.columns)]) if found.columns else "none"
    return Question("How certain is this?", f"{answer}: {measures}.", evidence)


def _verdicts(changes: list[ScoreChange]) -> str:
    """`better on 1 of 2 measures, no significant difference on 1`."""
    counts = Counter(one.verdict for one in changes)
    parts = [f"{verdict} on {counts[verdict]}" for verdict in _VERDICTS if counts[verdict]]
    if parts:
        parts[0] += f" of {_counted(counts.total(), 'measure')}"
    return ", ".join(parts)


def _test(test: ScoreDifference) -> str:
    """`+0.02 [0.01 to 0.03], p = 0.010`."""
    decimals = _metric(test.column).decimals
    ends = (test.value, test.low, test.high)
    value, low, high = (number(end, decimals, sign=True) for end in ends)
    return f"{value} [{low} to {high}], {p_text(test.corrected)}"


def _metric(column: Column) -> Metric:
    return metric(column[2].removeprefix(_ENGLISH))


def _title(column: Column) -> str:
    """`chrF (translation)`."""
    return f"{metric(column[2]).title} ({column[1]})"


def _baseline(model: Model) -> str:
    return "the source model" if model.is_source else f"LAPT ({model.strategy})"


def _cell(model: Model) -> str:
    return f"{row_name(model.initializer, model.strategy)}, {model.vocabulary}, {model.strategy}"


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"
