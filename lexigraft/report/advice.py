"""A recommendation in plain sentences: an answer to each question, with its evidence."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexigraft.report.metrics import metric
from lexigraft.report.models import Model
from lexigraft.report.names import listed, row_name
from lexigraft.report.recommendation import Choice, Measure, Recommendation, recommend
from lexigraft.report.significance import LEVEL, RESAMPLES, Column, Compared, effect_text, p_text
from lexigraft.report.study import StudyResults as Study
from lexigraft.report.table import number
from lexigraft.report.worth import ENGLISH, Change, Hours, Speed, Tokens, Worth, worth

if TYPE_CHECKING:
    import pandas

METHOD = (
    "For each question the configurations that differ in it alone are compared on every measure. "
    "On a measure lead the best one and all that are not shown to be worse: paired bootstrap over "
    f"test examples and seeds, {RESAMPLES:,} resamples, p below {LEVEL} after correction "
    "(Benjamini-Hochberg) for all comparisons of the question. Who leads on most measures is "
    "recommended; where several do, the one with the best mean rank, and it is said that the "
    "evidence does not decide. In brackets: 95 % intervals, which may reach past zero at a p below "
    "0.05 where resamples lie askew; d is Cohen's effect size over examples."
)
_QUESTIONS = {
    "initializer": "Which initializer?",
    "vocabulary": "How many new tokens?",
    "strategy": "Which training strategy?",
}


@dataclass(frozen=True)
class Question:
    """A question, its answer in one sentence, and the evidence for it, a sentence each."""

    title: str
    answer: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advice:
    """The advice for one language and source model; `numbers` are for `summary.json`."""

    numbers: dict[str, Any]
    heading: str
    answer: str
    questions: tuple[Question, ...]


def advice(study: Study, summary: "pandas.DataFrame") -> list[Advice]:
    """Advice on every source model and language of a study that have cells with new tokens."""
    return [
        _advice(study, found, worth(study, summary, found)) for found in recommend(study, summary)
    ]


def _advice(study: Study, found: Recommendation, gains: Worth) -> Advice:
    model = found.model
    name = row_name(model.initializer, model.strategy)
    trained = f"trained by {model.strategy}" if model.strategy != "none" else "not trained"
    answer = f"{name}, {_vocabulary(study, found, model.vocabulary)}, {trained}."
    if not any(choice.compared for choice in found.choices):
        answer = f"This study does not decide. It has {answer[:1].lower()}{answer[1:]}"
    elif undecided := [choice.axis for choice in found.choices if choice.tied]:
        answer += f" Between this and others the evidence does not decide on: {listed(undecided)}."
    answer += _warning(found, gains)
    return Advice(
        found.numbers(),
        f"{study.language(found.language)}, {found.source}",
        answer,
        (
            *(_choice(study, found, choice) for choice in found.choices),
            _bought(found, gains),
            _costs(gains),
            _doubts(study, found, gains),
        ),
    )


def _choice(study: Study, found: Recommendation, choice: Choice) -> Question:
    title = _QUESTIONS[choice.axis]
    others = [rival for rival in choice.rivals if rival != choice.chosen]
    named = {rival: _value(study, found, choice, rival) for rival in choice.rivals}
    name = named[choice.chosen]
    if not others:
        return Question(title, f"{name}: the study has nothing else to compare it with.")
    if not choice.compared:
        return Question(
            title, f"Not decided: no measure that says anything has {listed([*named.values()])}."
        )
    leads = sum(choice.chosen in one.leaders for one in choice.measures)
    of = f"{leads} of {len(choice.measures)} measure{'s' if len(choice.measures) > 1 else ''}"
    if choice.tied:
        tied = listed([named[rival] for rival in choice.tied])
        verb = "lead" if len(choice.tied) > 1 else "leads"
        answer = f"Not decided: {name} leads on {of}, and {tied} {verb} on as many."
    else:
        answer = f"{name}: leads on {of}, more than {listed([named[rival] for rival in others])}."
    same = [f"{axis} {getattr(choice.chosen, axis)}" for axis in _QUESTIONS if axis != choice.axis]
    evidence = [_measure(named, one) for one in choice.measures]
    return Question(title, answer, (f"Compared with {listed(same)}.", *evidence))


def _value(study: Study, found: Recommendation, choice: Choice, model: Model) -> str:
    if choice.axis == "initializer":
        return row_name(model.initializer, model.strategy)
    if choice.axis == "vocabulary":
        return _vocabulary(study, found, model.vocabulary)
    return model.strategy if model.strategy != "none" else "no training"


def _vocabulary(study: Study, found: Recommendation, vocabulary: str) -> str:
    """A vocabulary with how many tokens of it are new, where that is on record."""
    frame = study.fragmentation
    key = {"source": found.source, "language": found.language, "vocabulary": vocabulary}
    for axis, name in (key | {"metric": "new_tokens"}).items():
        frame = frame[frame[axis] == name]
    if frame.empty:
        return vocabulary
    return f"{vocabulary} ({number(frame['value'].iloc[0], 0)} new tokens)"


def _measure(named: dict[Model, str], one: Measure) -> str:
    """`bits per byte (perplexity): Align 1.43; Mean 1.45 (+0.02 [0.01 to 0.03], p = 0.01)`."""
    shown = metric(one.column[2])
    parts = []
    for place, (model, mean) in enumerate(one.means.items()):
        text = f"{named[model]} {number(mean, shown.decimals)}"
        if place:
            test = one.against_best.get(model)
            text += f" ({_test(test) if test else 'not tested'})"
        parts.append(text)
    return f"{_title(one.column)}: {'; '.join(parts)}."


def _bought(found: Recommendation, gains: Worth) -> Question:
    changes = [one for one in gains.quality if one.column in found.columns]
    parts = []
    for baseline in dict.fromkeys(one.baseline for one in changes):
        own = [one for one in changes if one.baseline == baseline]
        parts.append(f"against {_baseline(baseline)} {_verdicts(own)}")
    answer = "; ".join(parts)
    answer = f"{answer[:1].upper()}{answer[1:]}." if parts else "No score says anything of quality."
    if gains.speed is not None:
        answer += f" {_speed(found, gains.speed)}"
    evidence = [_change(one) for one in gains.quality]
    if gains.tokens is not None:
        evidence.append(_tokens(gains.tokens))
    if found.measured != found.model:
        evidence.insert(0, f"Measured on {_cell(found.measured)}: the recommended configuration "
                        "itself is not a cell of the study.")  # fmt: skip
    return Question("What does it buy?", answer, tuple(evidence))


def _warning(found: Recommendation, gains: Worth) -> str:
    """Whether a baseline does as well: what a reader of the first sentence alone must know."""
    verdicts: dict[bool, set[str]] = {}
    for one in gains.quality:
        if one.column in found.columns:
            verdicts.setdefault(one.baseline.is_source, set()).add(_verdict(one))
    text = ""
    if True in verdicts and "better" not in verdicts[True]:
        text += " It is not shown to be better than the source model as it is."
    if "worse" in verdicts.get(False, ()) and "better" not in verdicts[False]:
        text += " Training without new tokens (LAPT) scores better."
    return text


def _verdicts(changes: list[Change]) -> str:
    """`better on 1 of 2 measures, no difference shown on 1`."""
    counts = {"better": 0, "worse": 0, "no difference shown": 0, "not tested": 0}
    for one in changes:
        counts[_verdict(one)] += 1
    total = len(changes)
    parts = [
        f"{verdict} on {count} of {total} measure{'s' if total > 1 else ''}"
        for verdict, count in counts.items()
        if count
    ]
    return ", ".join(parts)


def _verdict(one: Change) -> str:
    if one.test is None:
        return "not tested"
    if one.test.corrected >= LEVEL:
        return "no difference shown"
    return "better" if _is_better(one) else "worse"


def _is_better(one: Change) -> bool:
    lower = metric(one.column[2].removeprefix(ENGLISH)).lower_is_better
    return (one.value < one.level) == lower


def _speed(found: Recommendation, speed: Speed) -> str:
    text = f"The same text is written {number(speed.ratio, 2)} times as fast as by the source model"
    text += f" (batch {speed.batch}"
    return text + (f"; measured on {_cell(speed.of)})." if speed.of != found.measured else ").")


def _tokens(tokens: Tokens) -> str:
    before, after = number(tokens.before, 1), number(tokens.after, 1)
    return f"Tokens of a sentence: {before} before, {after} after."


def _change(one: Change) -> str:
    shown = metric(one.column[2].removeprefix(ENGLISH))
    text = f"{_title(one.column)}: {number(one.value, shown.decimals)} against "
    text += f"{number(one.level, shown.decimals)} of {_baseline(one.baseline)}, {_verdict(one)}"
    return f"{text} ({_test(one.test, effect=True)})." if one.test else f"{text}."


def _test(test: Compared, effect: bool = False) -> str:
    """`+0.02 [0.01 to 0.03], p = 0.010`."""
    decimals = metric(test.column[2].removeprefix(ENGLISH)).decimals
    value, low, high = (
        number(value, decimals, sign=True)
        for value in (test.found.value, test.found.low, test.found.high)
    )
    text = f"{value} [{low} to {high}], {p_text(test.corrected)}"
    return f"{text}, {effect_text(test)}" if effect else text


def _costs(gains: Worth) -> Question:
    parts, evidence = [], [_change(one) for one in gains.english]
    if gains.english:
        parts.append(f"English: {_verdicts(list(gains.english))}")
    else:
        parts.append("English: no score of it was measured")
    if gains.tokens is not None and gains.tokens.english_changed is not None:
        share = number(100 * gains.tokens.english_changed, 1)
        evidence.append(f"English sentences that are cut differently: {share} %.")
    if gains.training is not None:
        parts.append(f"training: {_hours(gains.training)} a cell")
        if gains.lapt_training is not None:
            evidence.append(f"Training of LAPT: {_hours(gains.lapt_training)} a cell.")
        evidence.append("Hours are of training alone, from the cards of the cells, without "
                        "initialization and evaluation.")  # fmt: skip
    return Question("What does it cost?", f"{'; '.join(parts)}.", tuple(evidence))


def _hours(training: Hours) -> str:
    total = training.hours * training.processes
    what = f"{number(training.tokens, 0)} tokens"
    if training.on_gpu:
        return f"{number(total, 2)} GPU-hours ({training.processes} × {training.device}, {what})"
    if total < 1 / 60:
        return f"{number(3600 * total, 1)} seconds of {training.device} ({what})"
    return f"{number(60 * total, 1)} minutes of {training.device} ({what})"


def _doubts(study: Study, found: Recommendation, gains: Worth) -> Question:
    """What limits the answers: seeds, examples, and scores that say nothing."""
    seeds = study.seeds
    tests = [one.test for one in (*gains.quality, *gains.english) if one.test is not None]
    tests += [test for choice in found.choices for one in choice.measures
              for test in one.against_best.values()]  # fmt: skip
    evidence = []
    if tests:
        few, many = (number(end(test.examples for test in tests), 0) for end in (min, max))
        evidence.append(f"Test examples of a comparison: {few if few == many else f'{few} to {many}'}.")  # fmt: skip # noqa: E501
    if any(not test.seeds for test in tests):
        evidence.append("Not every comparison has a model with several seeds: those without are "
                        "about other examples alone.")  # fmt: skip
    if found.noise:
        evidence.append(f"Not counted, for every model scores too low to say anything: "
                        f"{_titles(found.noise)}.")  # fmt: skip
    answer = f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
    answer += f", {len(found.columns)} measure{'' if len(found.columns) == 1 else 's'} counted"
    return Question("How sure is this?", f"{answer}: {_titles(found.columns) or 'none'}.",
                    tuple(evidence))  # fmt: skip


def _titles(columns: Iterable[Column]) -> str:
    titles = [_title(column) for column in columns]
    return listed(titles) if titles else ""


def _title(column: Column) -> str:
    """`chrF (translation)`."""
    _, task, name = column
    return f"{metric(name).title} ({task})"


def _baseline(model: Model) -> str:
    return "the source model" if model.is_source else f"LAPT ({model.strategy})"


def _cell(model: Model) -> str:
    parts = (row_name(model.initializer, model.strategy), model.vocabulary, model.strategy)
    return ", ".join(parts)
