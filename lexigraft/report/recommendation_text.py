"""A recommendation in sentences: each question, its answer, and the evidence for it."""

from collections import Counter
from typing import Any, NamedTuple

from lexigraft.report.metrics import metric
from lexigraft.report.models import Column, Model
from lexigraft.report.names import listed, row_name
from lexigraft.report.paired_tests import LEVEL, RESAMPLES, effect_text, p_text
from lexigraft.report.recommendation import (
    QUESTIONS,
    Choice,
    Gains,
    Recommendation,
    ScoreChange,
    TrainingTime,
    gains,
    metric_of,
    recommend,
)
from lexigraft.report.score_differences import ScoreDifference
from lexigraft.report.study import StudyResults
from lexigraft.report.table import number

METHOD = (
    "Each question compares the configurations that differ in it alone, on every measure. A "
    "configuration leads on a measure if it is the best or is not shown to be worse than the best "
    f"(paired bootstrap over test examples and seeds, {RESAMPLES:,} resamples, p below {LEVEL} "
    "after Benjamini-Hochberg correction for all comparisons of the question). The one that leads "
    "on most measures is recommended; if several do, the one with the best mean rank is, and the "
    "question counts as not decided. Brackets hold 95 % intervals, which may include zero at a p "
    "below 0.05 where the resampled differences are skewed; d is Cohen's effect size over examples."
)
_VERDICTS = ("better", "worse", "no significant difference", "not tested")


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


def recommendation_texts(study: StudyResults) -> list[RecommendationText]:
    """A text for every source model and language of a study that have cells with new tokens."""
    return [_text(study, one, gains(study, one)) for one in recommend(study)]


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
    title, chosen, measures = QUESTIONS[choice.axis], choice.chosen, choice.measures
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
    same = [f"{axis} {getattr(chosen, axis)}" for axis in QUESTIONS if axis != choice.axis]
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
    evidence += [_change(one) for one in gained.quality]
    if row := found.vocabularies.get(found.measured.vocabulary):
        before, after = (number(row[f"tokens_per_sentence_{when}"], 1)
                         for when in ("before", "after"))  # fmt: skip
        evidence.append(f"Tokens per sentence: {before} before, {after} after.")
    return Question("What does it gain?", " ".join(sentences), evidence)


def _costs(gained: Gains, vocabulary: dict[str, Any]) -> Question:
    evidence = [_change(one) for one in gained.english]
    answer = f"English: {_verdicts(gained.english) or 'not measured'}."
    if (changed := vocabulary.get("english_sentences_changed")) is not None:
        evidence.append(f"English sentences tokenized differently: {number(100 * changed, 1)} %.")
    if gained.training is not None:
        answer += f" Training: {_time(gained.training)} per cell."
        if gained.lapt_training is not None:
            evidence.append(f"Training of LAPT: {_time(gained.lapt_training)} per cell.")
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
    decimals = metric_of(test.column).decimals
    ends = (test.value, test.low, test.high)
    value, low, high = (number(end, decimals, sign=True) for end in ends)
    return f"{value} [{low} to {high}], {p_text(test.corrected)}"


def _change(change: ScoreChange) -> str:
    """A change as a sentence."""
    decimals = metric_of(change.column).decimals
    value, level = (number(score, decimals) for score in (change.value, change.baseline_value))
    test = f"; {_test(change.test)}, {effect_text(change.test)}" if change.test else ""
    return (f"{_title(change.column)}: {change.verdict}, {value} against {level} for "
            f"{_baseline(change.baseline)}{test}.")  # fmt: skip


def _time(training: TrainingTime) -> str:
    """The time of all processes together, on what, for how many tokens."""
    total, tokens = training.hours * training.processes, f"{number(training.tokens, 0)} tokens"
    if not training.device.endswith("CPU"):
        return f"{number(total, 2)} GPU-hours ({training.processes} × {training.device}, {tokens})"
    short = total < 1 / 60
    time = f"{number(3600 * total, 1)} seconds" if short else f"{number(60 * total, 1)} minutes"
    return f"{time} of {training.device} ({tokens})"


def _title(column: Column) -> str:
    """`chrF (translation)`."""
    return f"{metric(column[2]).title} ({column[1]})"


def _baseline(model: Model) -> str:
    return "the source model" if model.is_source else f"LAPT ({model.strategy})"


def _cell(model: Model) -> str:
    return f"{row_name(model.initializer, model.strategy)}, {model.vocabulary}, {model.strategy}"


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"
