"""The text of a recommendation: the verdict, each question with its answer, and every test."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from lexigraft.report.metrics import metric
from lexigraft.report.models import Model
from lexigraft.report.names import listed
from lexigraft.report.paired_tests import LEVEL, RESAMPLES, effect_text, p_text
from lexigraft.report.recommendation import (
    QUESTIONS,
    VERDICTS,
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
from lexigraft.report.study import SEEDED, StudyResults
from lexigraft.report.table import number
from lexigraft.report.verdict import (
    Decision,
    Verdict,
    baseline_name,
    cell_name,
    judge,
    measure_name,
    value_name,
)

METHOD = (
    "Each question compares the configurations that differ in it alone, on every measure. A "
    "configuration leads on a measure if it is the best or is not shown to be worse than the best "
    f"(paired bootstrap over test examples and seeds, {RESAMPLES:,} resamples, p below {LEVEL} "
    "after Benjamini-Hochberg correction for all comparisons of the question). The one that leads "
    "on most measures is chosen; if several do, the one with the best mean rank is, and the "
    "question counts as not decided. A configuration that is worse than the source model or than "
    "LAPT (the source model trained with its own vocabulary) is not recommended. Intervals are "
    "95 % intervals; they may include zero at a p below 0.05 where the resampled differences are "
    "skewed. d is Cohen's effect size over examples."
)


class Question(NamedTuple):
    """A question, its answer in one sentence, and the evidence, one sentence each."""

    title: str
    answer: str
    evidence: list[str]


class ComparedScores(NamedTuple):
    """One paired test as text: a row of the table of tests."""

    measure: str
    model: str
    score: str
    compared_with: str
    its_score: str
    difference: str
    interval: str
    p: str
    effect: str


class RecommendationText(NamedTuple):
    """The text for one language and source model; `numbers` are for `summary.json`.

    `export` is the command to export the model that the verdict is about; empty if it has not been
    trained.
    """

    numbers: dict[str, Any]
    heading: str
    verdict: Verdict
    questions: list[Question]
    tests: list[ComparedScores]
    export: str

    @property
    def recommended(self) -> bool:
        """Whether the verdict recommends the exported model."""
        return self.verdict.decision == Decision.GRAFT


def recommendation_texts(study: StudyResults) -> list[RecommendationText]:
    """A text for every source model and language of a study with new tokens."""
    return [_text(study, one, gains(study, one)) for one in recommend(study)]


def _text(study: StudyResults, found: Recommendation, gained: Gains) -> RecommendationText:
    verdict, export = judge(study, found, gained), _export(study, found)
    questions = [
        _worth(found, gained),
        *(_choice(found, choice) for choice in found.choices),
        _shorter(found, gained),
        _costs(gained, found.vocabularies.get(found.measured.vocabulary, {})),
        _certainty(study, found, gained),
    ]
    judged = {"verdict": verdict.decision, "missing": verdict.missing, "export": export}
    heading = f"{study.language(found.language)}, {found.model.source}"
    tests = _tests(found, gained)
    return RecommendationText(found.numbers() | judged, heading, verdict, questions, tests, export)


def _export(study: StudyResults, found: Recommendation) -> str:
    """The command for the measured cell's first seed."""
    own = found.measured.keys() | {"language": found.language}
    cells = (key for key in study.exports
             if own.items() <= dict(zip(SEEDED, key, strict=True)).items())  # fmt: skip
    first = min(cells, key=lambda key: key[-1], default=())
    return study.exports.get(first, "")


def _worth(found: Recommendation, gained: Gains) -> Question:
    """How the best configuration compares with the baselines."""
    answers = []
    for baseline in dict.fromkeys(one.baseline for one in gained.quality):
        own = [one for one in gained.quality if one.baseline == baseline]
        answers.append(f"Compared with {_baseline(baseline)}: {_verdicts(own)}.")
    evidence = [f"Best configuration: {cell_name(found, found.measured)}."]
    if found.measured != found.model:
        evidence = [f"Measured: {cell_name(found, found.measured)}; the combination of the choices "
                    "below is not a cell of the study."]  # fmt: skip
    evidence += map(_change, gained.quality)
    answer = " ".join(answers) or "No score above the noise compares it with a baseline."
    return Question("Is it worth it?", answer, evidence)


def _choice(found: Recommendation, choice: Choice) -> Question:
    title, chosen, measures = QUESTIONS[choice.axis], choice.chosen, choice.measures
    names = {rival: value_name(found, choice.axis, rival) for rival in choice.rivals}
    others = [name for rival, name in names.items() if rival != chosen]
    if not others:
        return Question(title, f"{names[chosen]}: the study has no alternative to compare.", [])
    if not measures:
        every = listed(names.values())
        return Question(title, f"Not decided: no informative measure compares {every}.", [])
    alone = len(measures) == 1
    of = f"{sum(chosen in one.leaders for one in measures)} of {len(measures)} measures"
    answer = f"{names[chosen]} leads on {of}, more than {listed(others)}."
    if alone:
        answer = f"{names[chosen]} is shown to be better than {listed(others)}."
    if choice.tied:
        tied = listed(names[rival] for rival in (chosen, *choice.tied))
        answer = f"Not decided: {tied} each lead on {of}; {names[chosen]} has the best mean rank."
        if alone:
            answer = f"Not decided: {tied} are not shown to differ; {names[chosen]} scores best."
    same = [f"{axis} {getattr(chosen, axis)}" for axis in QUESTIONS if axis != choice.axis]
    evidence = []
    for column, means, leaders, against_best in measures:
        # `bits per byte (perplexity): best Align 1.43; not shown to be worse: Merge 1.44.`
        groups: dict[str, list[str]] = {}
        for place, (model, mean) in enumerate(means.items()):
            how = ("best" if not place else "not tested:" if model not in against_best
                   else "not shown to be worse:" if model in leaders else "worse:")  # fmt: skip
            score = number(mean, metric(column[2]).decimals)
            groups.setdefault(how, []).append(f"{names[model]} {score}")
        every = "; ".join(f"{how} {', '.join(shown)}" for how, shown in groups.items())
        evidence.append(f"{measure_name(column)}: {every}.")
    return Question(title, answer, [*evidence, f"All with {listed(same)}."])


def _shorter(found: Recommendation, gained: Gains) -> Question:
    """How the length of text and the speed change."""
    answers = []
    if row := found.vocabularies.get(found.measured.vocabulary):
        before, after = (number(row[f"tokens_per_sentence_{when}"], 1)
                         for when in ("before", "after"))  # fmt: skip
        answers.append(f"Tokens per sentence: {before} before, {after} after.")
    evidence = []
    if (speed := gained.speed) is not None:
        answers.append(f"It writes the same text {number(speed.ratio, 2)} times as fast as the "
                       f"source model, in batches of {speed.batch}.")  # fmt: skip
        if speed.model != found.measured:
            evidence.append(f"Speed was measured on {cell_name(found, speed.model)}.")
    return Question("How much shorter and faster?", " ".join(answers) or "Not measured.", evidence)


def _costs(gained: Gains, vocabulary: dict[str, Any]) -> Question:
    evidence = [_change(one) for one in gained.english]
    answer = f"English: {_verdicts(gained.english) or 'not measured'}."
    if (changed := vocabulary.get("english_sentences_changed")) is not None:
        evidence.append(f"English sentences tokenized differently: {number(100 * changed, 1)} %.")
    if gained.training is not None:
        answer += f" Training: {_time(gained.training)} per cell."
        if gained.lapt_training is not None:
            evidence.append(f"Training of LAPT: {_time(gained.lapt_training)} per cell.")
        evidence.append("Training times are from the cells' cards and exclude initialization and "
                        "evaluation.")  # fmt: skip
    return Question("What does it cost?", answer, evidence)


def _certainty(study: StudyResults, found: Recommendation, gained: Gains) -> Question:
    """What limits the answers: seeds, examples, and scores that are noise."""
    tests = [test for _, test in _tested(found, gained)]
    evidence = []
    if tests:
        counts = [test.examples for test in tests]
        ends = dict.fromkeys(number(end, 0) for end in (min(counts), max(counts)))
        evidence.append(f"Test examples per comparison: {' to '.join(ends)}.")
    if any(not test.freedom for test in tests):
        evidence.append("Where no model has several seeds, a comparison covers other examples "
                        "only, not other seeds.")  # fmt: skip
    if found.noise:
        noise = listed(map(measure_name, found.noise))
        evidence.append(f"Not counted, because every model scores too low: {noise}.")
    answer = f"{_counted(len(study.seeds), 'seed')}, {_counted(len(found.columns), 'measure')}"
    measures = listed(map(measure_name, found.columns)) or "none"
    return Question("How certain is this?", f"{answer}: {measures}.", evidence)


def _tested(found: Recommendation, gained: Gains) -> Iterable[tuple[str, ScoreDifference]]:
    """Every test, with the name of the model compared with; those of the baselines first."""
    for one in (*gained.quality, *gained.english):
        if one.test is not None:
            yield _baseline(one.baseline), one.test
    for choice in found.choices:
        for measure in choice.measures:
            for test in measure.against_best.values():
                yield value_name(found, choice.axis, test.baseline), test


def _tests(found: Recommendation, gained: Gains) -> list[ComparedScores]:
    rows = []
    for compared_with, test in _tested(found, gained):
        decimals = metric_of(test.column).decimals
        ends = (test.value, test.low, test.high)
        value, low, high = (number(end, decimals, sign=True) for end in ends)
        scores = (test.baseline_score, test.baseline_score + test.value)
        score, own = (number(one, decimals) for one in scores)
        rows.append(
            ComparedScores(
                measure=measure_name(test.column),
                model=cell_name(found, test.model),
                score=own,
                compared_with=compared_with,
                its_score=score,
                difference=value,
                interval=f"{low} to {high}",
                p=p_text(test.corrected).removeprefix("p ").removeprefix("= "),
                effect=effect_text(test).removeprefix("d = "),
            )
        )
    return rows


def _verdicts(changes: list[ScoreChange]) -> str:
    """`better on 1 of 2 measures, no significant difference on 1`; for one measure, its verdict."""
    counts = Counter(one.verdict for one in changes)
    if counts.total() == 1:
        return changes[0].verdict
    parts = [f"{verdict} on {counts[verdict]}" for verdict in VERDICTS if counts[verdict]]
    if parts:
        parts[0] += f" of {counts.total()} measures"
    return ", ".join(parts)


def _change(change: ScoreChange) -> str:
    """A change as a sentence."""
    decimals = metric_of(change.column).decimals
    value, level = (number(score, decimals) for score in (change.value, change.baseline_value))
    return (f"{measure_name(change.column)}: {value} against {level} for "
            f"{baseline_name(change.baseline)}, {change.verdict}.")  # fmt: skip


def _time(training: TrainingTime) -> str:
    """The total time of all processes, the device, and the number of tokens."""
    total, tokens = training.hours * training.processes, f"{number(training.tokens, 0)} tokens"
    if not training.device.endswith("CPU"):
        return f"{number(total, 2)} GPU-hours ({training.processes} × {training.device}, {tokens})"
    short = total < 1 / 60
    time = f"{number(3600 * total, 1)} seconds" if short else f"{number(60 * total, 1)} minutes"
    return f"{time} of {training.device} ({tokens})"


def _baseline(model: Model) -> str:
    return "the source model" if model.is_source else f"LAPT ({model.strategy})"


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"
