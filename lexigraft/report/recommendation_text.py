"""A recommendation in sentences: an answer to each question with its evidence, as one page."""

import html
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexigraft.report.metrics import Metric, metric
from lexigraft.report.models import Column, Model
from lexigraft.report.names import listed, row_name
from lexigraft.report.paired_tests import LEVEL, RESAMPLES, effect_text, p_text
from lexigraft.report.recommendation import (
    ENGLISH,
    Choice,
    Gains,
    Measure,
    Recommendation,
    ScoreChange,
    TrainingTime,
    gains,
    recommend,
    vocabulary_of,
)
from lexigraft.report.score_differences import ScoreDifference
from lexigraft.report.study import StudyResults
from lexigraft.report.table import number

if TYPE_CHECKING:
    import pandas

METHOD = (
    "Each question compares the configurations that differ in it alone, on every measure. A "
    "configuration leads on a measure if it is the best or is not shown to be worse than the best "
    f"(paired bootstrap over test examples and seeds, {RESAMPLES:,} resamples, p below {LEVEL} "
    "after Benjamini-Hochberg correction for all comparisons of the question). The one that leads "
    "on most measures is recommended; if several do, the one with the best mean rank is, and the "
    "question counts as not decided. Brackets hold 95 % intervals, which may include zero at a p "
    "below 0.05 where the resampled differences are skewed; d is Cohen's effect size over examples."
)
_NOTHING = "No cell with new tokens has a score of quality: there is nothing to recommend."
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
class RecommendationText:
    """The text for one language and source model; `numbers` are for `summary.json`."""

    numbers: dict[str, Any]
    heading: str
    answer: str
    questions: tuple[Question, ...]


def recommendation_texts(
    study: StudyResults, summary: "pandas.DataFrame"
) -> list[RecommendationText]:
    """A text for every source model and language of a study that have cells with new tokens."""
    return [_text(study, one, gains(study, summary, one)) for one in recommend(study, summary)]


def recommendation_markdown(title: str, texts: list[RecommendationText], caveats: list[str]) -> str:
    """One page of Markdown, which ends with the method and the caveats."""
    lines = [f"# {title}", ""]
    for one in texts:
        lines += [f"## {one.heading}", "", f"**{one.answer}**", ""]
        for question in one.questions:
            lines.append(f"- **{question.title}** {question.answer}")
            lines += [f"  - {text}" for text in question.evidence]
        lines.append("")
    lines += [METHOD if texts else _NOTHING, ""]
    return "\n".join([*lines, *(f"- {text}" for text in caveats), ""])


def recommendation_html(texts: list[RecommendationText]) -> str:
    """The same as a part of an HTML page, without title and caveats."""
    if not texts:
        return f"<p>{_NOTHING}</p>"
    parts = []
    for one in texts:
        parts.append(f"<h3>{html.escape(one.heading)}</h3>")
        parts.append(f"<p><strong>{html.escape(one.answer)}</strong></p><dl>")
        for question in one.questions:
            evidence = "".join(f"<li>{html.escape(text)}</li>" for text in question.evidence)
            title, answer = html.escape(question.title), html.escape(question.answer)
            parts.append(f"<dt><strong>{title}</strong> {answer}</dt>")
            parts.append(f"<dd><ul>{evidence}</ul></dd>" if evidence else "")
        parts.append("</dl>")
    return "".join(parts) + f'<p class="lead">{html.escape(METHOD)}</p>'


def _text(study: StudyResults, found: Recommendation, gained: Gains) -> RecommendationText:
    model = found.model
    trained = f"trained with {model.strategy}" if model.strategy != "none" else "not trained"
    answer = (f"{row_name(model.initializer, model.strategy)}, "
              f"{_vocabulary(study, found, model)}, {trained}.")  # fmt: skip
    if not any(choice.measures for choice in found.choices):
        answer = f"This study does not decide. It includes {answer}"
    elif undecided := [choice.axis for choice in found.choices if choice.tied]:
        answer += f" The evidence does not decide on the {listed(undecided)}."
    # A reader of the first sentence alone must know whether a baseline does as well.
    changes = [one for one in gained.quality if one.column in found.columns]
    source, lapt = (
        {one.verdict for one in changes if one.baseline.is_source == of_source}
        for of_source in (True, False)
    )
    if source and "better" not in source:
        answer += " It is not shown to be better than the source model."
    if "worse" in lapt and "better" not in lapt:
        answer += " Training without new tokens (LAPT) scores better."
    questions = (
        *(_choice(study, found, choice) for choice in found.choices),
        _gains(found, gained, changes),
        _costs(gained),
        _certainty(study, found, gained),
    )
    heading = f"{study.language(found.language)}, {found.source}"
    return RecommendationText(found.numbers(), heading, answer, questions)


def _choice(study: StudyResults, found: Recommendation, choice: Choice) -> Question:
    title, chosen = _QUESTIONS[choice.axis], choice.chosen
    names = {rival: _value(study, found, choice, rival) for rival in choice.rivals}
    others = [name for rival, name in names.items() if rival != chosen]
    if not others:
        return Question(title, f"{names[chosen]}: the study has no alternative to compare.")
    if not choice.measures:
        every = listed([*names.values()])
        return Question(title, f"Not decided: no informative measure compares {every}.")
    count = len(choice.measures)
    leads = sum(chosen in one.leaders for one in choice.measures)
    of = f"{leads} of {_counted(count, 'measure')}"
    if choice.tied:
        tied = listed([names[rival] for rival in (chosen, *choice.tied)])
        answer = f"Not decided: {tied} each lead on {of}; {names[chosen]} has the best mean rank."
    else:
        answer = f"{names[chosen]} leads on {of}, more than {listed(others)}."
    same = [f"{axis} {getattr(chosen, axis)}" for axis in _QUESTIONS if axis != choice.axis]
    evidence = [_ranking(names, one) for one in choice.measures]
    return Question(title, answer, (f"All with {listed(same)}.", *evidence))


def _value(study: StudyResults, found: Recommendation, choice: Choice, model: Model) -> str:
    if choice.axis == "initializer":
        return row_name(model.initializer, model.strategy)
    if choice.axis == "vocabulary":
        return _vocabulary(study, found, model)
    return model.strategy if model.strategy != "none" else "no training"


def _vocabulary(study: StudyResults, found: Recommendation, model: Model) -> str:
    """A vocabulary with its number of new tokens, where that is recorded."""
    row = vocabulary_of(study, found.language, model)
    added = f" ({number(row['new_tokens'], 0)} new tokens)" if row else ""
    return f"{model.vocabulary}{added}"


def _ranking(names: dict[Model, str], one: Measure) -> str:
    """`bits per byte (perplexity): Align 1.43; Mean 1.45 (+0.02 [0.01 to 0.03], p = 0.01)`."""
    shown = metric(one.column[2])
    best, *rest = (f"{names[model]} {number(mean, shown.decimals)}"
                   for model, mean in one.means.items())  # fmt: skip
    tests = (one.against_best.get(model) for model in [*one.means][1:])
    tested = [f"{text} ({_test(test) if test else 'not tested'})"
              for text, test in zip(rest, tests, strict=True)]  # fmt: skip
    return f"{_title(one.column)}: {'; '.join([best, *tested])}."


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
    evidence = [_change(one) for one in gained.quality]
    if (row := gained.vocabulary) is not None:
        before, after = (number(row[f"tokens_per_sentence_{when}"], 1)
                         for when in ("before", "after"))  # fmt: skip
        evidence.append(f"Tokens per sentence: {before} before, {after} after.")
    if found.measured != found.model:
        evidence.insert(0, f"Measured on {_cell(found.measured)}: the recommended configuration "
                        "is not a cell of the study.")  # fmt: skip
    return Question("What does it gain?", " ".join(sentences), tuple(evidence))


def _costs(gained: Gains) -> Question:
    evidence = [_change(one) for one in gained.english]
    answer = f"English: {_verdicts(gained.english) or 'not measured'}."
    changed = (gained.vocabulary or {}).get("english_sentences_changed")
    if changed is not None:
        evidence.append(f"English sentences tokenized differently: {number(100 * changed, 1)} %.")
    if gained.training is not None:
        answer += f" Training: {_hours(gained.training)} per cell."
        if gained.lapt_training is not None:
            evidence.append(f"Training of LAPT: {_hours(gained.lapt_training)} per cell.")
        evidence.append("Training times are those on the cells' cards, without initialization and "
                        "evaluation.")  # fmt: skip
    return Question("What does it cost?", answer, tuple(evidence))


def _certainty(study: StudyResults, found: Recommendation, gained: Gains) -> Question:
    """What limits the answers: seeds, examples, and scores that say nothing."""
    tests = [one.test for one in (*gained.quality, *gained.english) if one.test is not None]
    tests += [test for choice in found.choices for one in choice.measures
              for test in one.against_best.values()]  # fmt: skip
    evidence = []
    if tests:
        few, many = (number(end(test.examples for test in tests), 0) for end in (min, max))
        count = few if few == many else f"{few} to {many}"
        evidence.append(f"Test examples per comparison: {count}.")
    if any(not test.freedom for test in tests):
        evidence.append("Where no model has several seeds, a comparison is about other examples "
                        "alone, not about other seeds.")  # fmt: skip
    if found.noise:
        evidence.append("Not counted, because every model scores too low: "
                        f"{_titles(found.noise)}.")  # fmt: skip
    answer = f"{_counted(len(study.seeds), 'seed')}, {_counted(len(found.columns), 'measure')}"
    return Question("How certain is this?", f"{answer}: {_titles(found.columns) or 'none'}.",
                    tuple(evidence))  # fmt: skip


def _verdicts(changes: Iterable[ScoreChange]) -> str:
    """`better on 1 of 2 measures, no significant difference on 1`."""
    counts = Counter(one.verdict for one in changes)
    order = ("better", "worse", "no significant difference", "not tested")
    parts = [f"{verdict} on {counts[verdict]}" for verdict in order if counts[verdict]]
    if parts:
        parts[0] += f" of {_counted(counts.total(), 'measure')}"
    return ", ".join(parts)


def _change(one: ScoreChange) -> str:
    decimals = _metric(one.column).decimals
    value, level = (number(score, decimals) for score in (one.value, one.baseline_value))
    test = f"; {_test(one.test)}, {effect_text(one.test)}" if one.test else ""
    scores = f"{value} against {level} for {_baseline(one.baseline)}"
    return f"{_title(one.column)}: {one.verdict}, {scores}{test}."


def _test(test: ScoreDifference) -> str:
    """`+0.02 [0.01 to 0.03], p = 0.010`."""
    decimals = _metric(test.column).decimals
    value, low, high = (
        number(end, decimals, sign=True) for end in (test.value, test.low, test.high)
    )
    return f"{value} [{low} to {high}], {p_text(test.corrected)}"


def _hours(training: TrainingTime) -> str:
    total = training.hours * training.processes
    tokens = f"{number(training.tokens, 0)} tokens"
    if training.on_gpu:
        return f"{number(total, 2)} GPU-hours ({training.processes} × {training.device}, {tokens})"
    if total < 1 / 60:
        return f"{number(3600 * total, 1)} seconds of {training.device} ({tokens})"
    return f"{number(60 * total, 1)} minutes of {training.device} ({tokens})"


def _metric(column: Column) -> Metric:
    return metric(column[2].removeprefix(ENGLISH))


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
    return f"{row_name(model.initializer, model.strategy)}, {model.vocabulary}, {model.strategy}"


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"
