"""What to do: graft or not, which initializer, how many new tokens and which training strategy."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from typing import Any, NamedTuple

from markupsafe import Markup

from lexigraft.report.frame import (
    SEEDED,
    Column,
    Model,
    StudyResults,
    models_of,
    select,
    source_model,
)
from lexigraft.report.items import page
from lexigraft.report.models import cells_of, quality_columns
from lexigraft.report.names import listed, metric, row_name
from lexigraft.report.rendering import number, render
from lexigraft.report.significance import LEVEL, RESAMPLES, ScoreDifference, score_differences
from lexigraft.report.speed import same_text_speeds
from lexigraft.report.tables.fragmentation import vocabulary_sizes
from lexigraft.report.tables.significance import effect_text, p_text

# Axes in the order of the choices, each of which depends on those before it, and their questions.
QUESTIONS = {
    "initializer": "Which initializer?",
    "vocabulary": "How many new tokens?",
    "strategy": "Which training strategy?",
}
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
# Outcomes of a comparison, by precedence if there are several.
_OUTCOMES = ("better", "worse", "no significant difference", "not tested")
# A score that is worse than LAPT's by at most this share counts as equally good, if it is not shown
# to be worse.
_AS_GOOD = 0.02


class Page(NamedTuple):
    """A separate page: its Markdown, its HTML without a title, and its numbers in `summary.json`.

    Without numbers, there is nothing to show.
    """

    markdown: str
    body: Markup
    numbers: list[dict[str, Any]]


@page(
    title="Recommendation",
    caption="Whether to graft at all and, if so, with which initializer, how many new tokens and "
    "which training strategy, for each language and source model; the gains, the costs, and how "
    "certain they are. If the evidence is inconclusive or negative, the page says so.",
    empty="no cell with new tokens has a quality score",
)
def recommendation(study: StudyResults, title: str, caveats: list[str]) -> Page:
    """One page, with the reasons for the decision; its Markdown ends with caveats.

    Its HTML has no title and caveats, since it is a part of another page.
    """
    recommended = recommend(study)
    content: dict[str, Any] = {
        "sections": [_section(study, choice) for choice in recommended],
        "method": METHOD,
        "nothing": "No cell with new tokens has a quality score: there is nothing to recommend.",
    }
    markdown = render("recommendation.md.j2", title=title, caveats=caveats, **content)
    body = Markup(render("recommendation.html.j2", **content))
    return Page(markdown, body, [_numbers(study, choice) for choice in recommended])


class Decision(StrEnum):
    """What to do; only the first recommends a model."""

    GRAFT = "graft"
    TRADE_OFF = "depends on the task"
    UNDECIDED = "not decided"
    DO_NOT_GRAFT = "do not graft"


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
    """The choice between `rivals`, which differ only in one axis of the grid.

    `chosen` leads on most `measures` (ties: the best mean rank); the evidence does not decide
    between it and those `tied`, which lead on as many.
    """

    axis: str
    chosen: Model
    rivals: list[Model]
    tied: tuple[Model, ...] = ()
    measures: tuple[Measure, ...] = ()


@dataclass(frozen=True)
class ScoreChange:
    """A score and a baseline's score; `test` is None if outputs were not recorded."""

    baseline: Model
    column: Column
    value: float
    baseline_value: float
    test: ScoreDifference | None = None

    @property
    def outcome(self) -> str:
        """How the score compares with the baseline's."""
        if self.test is None:
            return "not tested"
        if self.test.corrected >= LEVEL:
            return "no significant difference"
        return "better" if self.share_behind < 0 else "worse"

    @property
    def share_behind(self) -> float:
        """How much worse the score is, as a share of the baseline's; negative if better."""
        behind = self.value - self.baseline_value
        higher = metric(self.column[2]).higher_is_better
        return (-behind if higher else behind) / abs(self.baseline_value or 1)


@dataclass(frozen=True)
class Recommendation:
    """The best configuration of one source model for one language, and what it gains and costs.

    `model` combines the choices, by the measures in `columns`; on those in `noise`, all scores are
    too low to be informative. `measured` is the cell whose scores show the gains: `model` itself if
    the study has it, otherwise the one of the last choice with measures.
    """

    language: str
    model: Model
    measured: Model
    choices: list[Choice]
    columns: list[Column]
    noise: list[Column]
    vocabularies: dict[str, dict[str, Any]]  # numbers of tokens by vocabulary
    quality: list[ScoreChange]
    english: list[ScoreChange]

    @property
    def outcomes(self) -> dict[Model, str]:
        """For each baseline, the outcomes on several measures combined into one, or `mixed`."""
        outcomes: dict[Model, set[str]] = {}
        for change in self.quality:
            outcomes.setdefault(change.baseline, set()).add(change.outcome)
        return {
            baseline: "mixed"
            if {"better", "worse"} <= known
            else next(outcome for outcome in _OUTCOMES if outcome in known)
            for baseline, known in outcomes.items()
        }

    @property
    def times_shorter(self) -> float:
        """How many times fewer tokens the same text has; 1 if it is not known."""
        row = self.vocabularies.get(self.measured.vocabulary)
        return row["tokens_per_sentence_before"] / row["tokens_per_sentence"] if row else 1.0

    @property
    def decision(self) -> Decision:
        """Whether to use the measured cell.

        A cell that is shown to be worse than the source model or LAPT, and not better on any
        measure, is never recommended. A cell that is better than the source model is recommended if
        it is also better than LAPT, or as good with shorter text; without LAPT, the verdict says
        that it was not trained.
        """
        outcomes = self.outcomes
        source = [outcome for model, outcome in outcomes.items() if model.is_source]
        lapt = [outcome for model, outcome in outcomes.items() if not model.is_source]
        if "worse" in outcomes.values():
            return Decision.DO_NOT_GRAFT
        if "mixed" in outcomes.values():
            return Decision.TRADE_OFF
        if source != ["better"] and (source or lapt != ["better"]):
            return Decision.UNDECIDED
        if lapt in ([], ["better"]):
            return Decision.GRAFT
        behind = [c.share_behind for c in self.quality if not c.baseline.is_source]
        as_good = lapt == ["no significant difference"] and max(behind) <= _AS_GOOD
        return Decision.GRAFT if as_good and self.times_shorter > 1 else Decision.UNDECIDED


def recommend(study: StudyResults) -> list[Recommendation]:
    """For each source model and language with new tokens: the configuration that scores favour.

    Axes are chosen one after the other, since a grid is rarely complete. Rivals differ only in one
    axis. On every measure that all of them have, the leaders are the best one and those that are
    not shown to be worse (paired bootstrap, corrected within the choice). The rival that leads on
    most measures is chosen. So a measure that does not separate rivals has no influence, and if no
    measure does, nothing is decided.
    """
    key = ("recommendations", *sorted(study.item.where.items()))
    if key not in study.cache:
        columns, sizes = quality_columns(study), vocabulary_sizes(study).to_dict("records")
        panels = product(study.order("source"), study.order("language"))
        recommended = [_recommend(study, *panel, columns, sizes) for panel in panels]
        study.cache[key] = [panel for panel in recommended if panel is not None]
    return study.cache[key]


def _recommend(
    study: StudyResults, source: str, language: str, columns: list[Column], sizes: list[dict]
) -> Recommendation | None:
    """Choose on each axis, then compare the choice with Source and LAPT.

    LAPT is the one with the same strategy or, if there is none, the study's first one trained on
    text only. All tests are corrected for each other; scores that are noise are not compared.
    """
    cells = cells_of(study, source, language)
    grafts = [cell for cell in cells if not cell.baseline]
    candidates = [cell for cell in grafts if cell.strategy != "none"] or grafts
    columns = [column for column in columns if column[0] == language]
    if not candidates or not columns:
        return None
    noise = [column for column in columns if study.is_noise(source, column)]
    columns = [column for column in columns if column not in noise]
    choices: list[Choice] = []
    model = candidates[0]
    for axis in QUESTIONS:
        rivals = _rivals(candidates, axis, model if choices else None, study.reference_strategy)
        choice = _choose(study, axis, rivals, columns, model)
        # The first choice determines the starting point of the others.
        value = getattr(choice.chosen, axis)
        model = replace(model, **{axis: value}) if choices else choice.chosen
        choices.append(choice)
    compared = [choice.chosen for choice in choices if choice.measures] or [choices[0].chosen]
    measured = model if model in candidates else compared[-1]
    lapt = [
        cell
        for cell in cells
        if cell.baseline
        and not cell.is_source
        and (cell.strategy == measured.strategy or study.is_of_text_alone(cell.strategy))
    ]
    lapt = sorted(lapt, key=lambda cell: cell.strategy != measured.strategy)[:1]
    untouched = source_model(source)
    english = [(language, task, f"english_{name}") for _, task, name in columns]
    changes = []
    for column, baseline in (*product(columns, [untouched, *lapt]), *product(english, [untouched])):
        means = _means(study, [measured, baseline], column)
        if len(means) == 2:
            changes.append(ScoreChange(baseline, column, means[measured], means[baseline]))
    comparisons = [(measured, change.baseline, change.column) for change in changes]
    tests = {(test.baseline, test.column): test for test in score_differences(study, comparisons)}
    changes = [replace(c, test=tests.get((c.baseline, c.column))) for c in changes]
    return Recommendation(
        language,
        model,
        measured,
        choices,
        columns,
        noise,
        {r["vocabulary"]: r for r in sizes if (r["source"], r["language"]) == (source, language)},
        quality=[change for change in changes if change.column not in english],
        english=[change for change in changes if change.column in english],
    )


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
    scored = [model for model in rivals if any(model in means for means in scores.values())]
    rivals = scored or rivals
    shared = {column: means for column, means in scores.items() if len(means) == len(rivals) > 1}
    if not shared:
        same = (model for model in rivals if getattr(model, axis) == getattr(before, axis))
        return Choice(axis, next(same, rivals[0]), rivals)
    comparisons = [
        (model, best, column) for column, (best, *others) in shared.items() for model in others
    ]
    tests = score_differences(study, comparisons)
    measures = []
    for column, means in shared.items():
        against = {test.model: test for test in tests if test.column == column}
        leaders = [m for m in means if m not in against or against[m].corrected >= LEVEL]
        measures.append(Measure(column, means, leaders, against))

    def rank(model: Model) -> tuple[int, int]:
        leads = sum(model in measure.leaders for measure in measures)
        return -leads, sum(list(measure.means).index(model) for measure in measures)

    chosen, *others = sorted(rivals, key=rank)
    tied = tuple(model for model in others if rank(model)[0] == rank(chosen)[0])
    return Choice(axis, chosen, rivals, tied, tuple(measures))


def _means(study: StudyResults, models: list[Model], column: Column) -> dict[Model, float]:
    """The score of each model that has one, the best first."""
    rows = {model: study.find(model, *column) for model in models}
    means = {model: float(row["mean"]) for model, row in rows.items() if row is not None}
    higher = metric(column[2]).higher_is_better
    return dict(sorted(means.items(), key=lambda pair: pair[1], reverse=higher))


def _numbers(study: StudyResults, advice: Recommendation) -> dict[str, Any]:
    """The recommendation in `summary.json`."""
    choices = {}
    for axis, chosen, rivals, tied, _ in advice.choices:
        compared, undecided = ([getattr(model, axis) for model in m] for m in (rivals, tied))
        choices[axis] = {
            "chosen": getattr(chosen, axis),
            "compared": compared,
            "tied": undecided,
        }
    return {
        "language": advice.language,
        **advice.model.axes(),
        "measured": advice.measured.axes(),
        "choices": choices,
        "verdict": advice.decision,
        "export": _export(study, advice),
    }


def _export(study: StudyResults, advice: Recommendation) -> str:
    """The command that exports the first seed of the measured cell; empty if it is unknown."""
    measured = (advice.measured.axes() | {"language": advice.language}).items()
    cells = [k for k in study.exports if measured <= dict(zip(SEEDED, k, strict=True)).items()]
    return study.exports[min(cells, key=lambda key: key[-1])] if cells else ""


def _section(study: StudyResults, advice: Recommendation) -> dict[str, Any]:
    """The variables of the templates for one language and source model."""
    speed = _speed(study, advice)
    return {
        "heading": f"{study.language(advice.language)}, {advice.model.source}",
        "recommended": advice.decision == Decision.GRAFT,
        "verdict": (_what_to_do(advice), _numbers_behind(study, advice, speed)),
        "questions": [
            _worth(advice),
            *(_choice(advice, choice) for choice in advice.choices),
            _shorter(advice, speed),
            _costs(study, advice),
            _certainty(study, advice),
        ],
        "tests": [_test_row(advice, test, name) for test, name in _tests(advice)],
        "export": _export(study, advice),
    }


def _what_to_do(advice: Recommendation) -> str:
    """The first sentence of the verdict."""
    outcomes, configuration = (
        advice.outcomes,
        _configuration(advice, advice.measured),
    )

    def baselines(outcome: str) -> str:
        return listed(_baseline(model) for model, how in outcomes.items() if how == outcome)

    match advice.decision:
        case Decision.GRAFT:
            return f"Graft: use {_cell_name(advice, advice.measured)}."
        case Decision.DO_NOT_GRAFT:
            return (
                f"Do not graft with this budget: {configuration}, the best configuration of this "
                f"study, is worse than {baselines('worse')}."
            )
        case Decision.UNDECIDED if "better" in outcomes.values():
            others = listed(
                f"{'better than' if model.is_source else 'as good as'} {_baseline(model)}"
                for model, how in outcomes.items()
                if how != "better"
            )
            return (
                f"Not decided: {configuration} is better than {baselines('better')}, but not shown "
                f"to be {others}."
            )
        case Decision.UNDECIDED:
            return "Not decided: this study does not show that new tokens help."
    baseline = next(model for model, how in outcomes.items() if how == "mixed")
    better, worse = (
        listed(
            _measure_name(change.column)
            for change in advice.quality
            if change.baseline == baseline and change.outcome == outcome
        )
        for outcome in ("better", "worse")
    )
    return (
        f"It depends on the task: compared with {_baseline(baseline)}, {configuration} is better "
        f"on {better} and worse on {worse}."
    )


def _numbers_behind(
    study: StudyResults, advice: Recommendation, speed: dict[str, Any] | None
) -> str:
    """The second sentence of the verdict: the first measure that shows the decision."""
    if not advice.quality:
        return "No score above the noise compares it with a baseline."
    telling = {Decision.GRAFT: "better", Decision.DO_NOT_GRAFT: "worse"}.get(advice.decision)
    first = next((c for c in advice.quality if c.outcome == telling), advice.quality[0])
    shown, tokens = metric(first.column[2]), _training(study, advice)["tokens"].mean()
    text = f"After {number(tokens, 0)} training tokens it reaches" if tokens > 0 else "It reaches"
    text += f" {number(first.value, shown.decimals)} {shown.title}"
    text += "" if shown.higher_is_better else " (lower is better)"
    levels = listed(
        f"{number(change.baseline_value, shown.decimals)} for {_baseline(change.baseline)}"
        for change in advice.quality
        if change.column == first.column
    )
    text += f", against {levels}"
    if speed is not None:
        times = number(speed["speed_up"], 1)
        text += f", and writes the same text {times} times as fast as the source model"
    elif advice.times_shorter > 1:
        text += f", and the same text has {number(advice.times_shorter, 1)} times fewer tokens"
    for outcome, chance in (
        ("no significant difference", "may be chance"),
        ("not tested", "was not tested"),
    ):
        if names := [_baseline(model) for model, how in advice.outcomes.items() if how == outcome]:
            text += f"; the difference from {listed(names)} {chance}"
    if advice.decision == Decision.GRAFT and all(c.baseline.is_source for c in advice.quality):
        text += "; whether training alone (LAPT) does as well is not known"
    return f"{text}."


# A question, its answer in one sentence, and the evidence, one sentence each.
Question = tuple[str, str, list[str]]


def _worth(advice: Recommendation) -> Question:
    """How the best configuration compares with the baselines."""
    answers = []
    for baseline in dict.fromkeys(change.baseline for change in advice.quality):
        changes = [change for change in advice.quality if change.baseline == baseline]
        answers.append(f"Compared with {_baseline(baseline, True)}: {_outcomes(changes)}.")
    measured = _cell_name(advice, advice.measured)
    evidence = f"Best configuration: {measured}."
    if advice.measured != advice.model:
        evidence = f"Measured: {measured}; the combination of the choices is not in the study."
    answer = " ".join(answers) or "No score above the noise compares it with a baseline."
    return "Is it worth it?", answer, [evidence, *map(_change, advice.quality)]


def _choice(advice: Recommendation, choice: Choice) -> Question:
    title, chosen, measures = QUESTIONS[choice.axis], choice.chosen, choice.measures
    names = {rival: _value_name(advice, choice.axis, rival) for rival in choice.rivals}
    others = [name for rival, name in names.items() if rival != chosen]
    if not others:
        return title, f"{names[chosen]}: the study has no alternative to compare.", []
    if not measures:
        return title, f"Not decided: no measure compares {listed(names.values())}.", []
    leads = sum(chosen in measure.leaders for measure in measures)
    on = f"{leads} of {len(measures)} measures"
    tied = listed(names[rival] for rival in (chosen, *choice.tied))
    match bool(choice.tied), len(measures) == 1:
        case True, True:
            answer = f"Not decided: {tied} are not shown to differ; {names[chosen]} scores best."
        case True, False:
            best = f"{names[chosen]} has the best mean rank"
            answer = f"Not decided: {tied} each lead on {on}; {best}."
        case False, True:
            answer = f"{names[chosen]} is shown to be better than {listed(others)}."
        case _:
            answer = f"{names[chosen]} leads on {on}, more than {listed(others)}."
    evidence = []
    for column, means, leaders, against_best in measures:
        # `bits per byte (perplexity): best Align 1.43; not shown to be worse: Merge 1.44.`
        groups: dict[str, list[str]] = {}
        for place, (model, mean) in enumerate(means.items()):
            group = "not shown to be worse:" if model in leaders else "worse:"
            if model not in against_best:
                group = "not tested:" if place else "best"
            score = number(mean, metric(column[2]).decimals)
            groups.setdefault(group, []).append(f"{names[model]} {score}")
        scores = "; ".join(f"{group} {', '.join(rivals)}" for group, rivals in groups.items())
        evidence.append(f"{_measure_name(column)}: {scores}.")
    same = listed(f"{axis} {getattr(chosen, axis)}" for axis in QUESTIONS if axis != choice.axis)
    return title, answer, [*evidence, f"All with {same}."]


def _shorter(advice: Recommendation, speed: dict[str, Any] | None) -> Question:
    """How the length of text and the speed change."""
    answers, evidence = [], []
    if row := advice.vocabularies.get(advice.measured.vocabulary):
        lengths = (row["tokens_per_sentence_before"], row["tokens_per_sentence"])
        before, after = (number(length, 1) for length in lengths)
        answers.append(f"Tokens per sentence: {before} before, {after} after.")
    if speed is not None:
        answers.append(
            f"It writes the same text {number(speed['speed_up'], 2)} times as fast as the "
            f"source model, in batches of {speed['batch']}."
        )
        model = Model(*(speed[axis] for axis in advice.measured.axes()))
        if model != advice.measured:
            evidence.append(f"Speed was measured on {_cell_name(advice, model)}.")
    return "How much shorter and faster?", " ".join(answers) or "Not measured.", evidence


def _costs(study: StudyResults, advice: Recommendation) -> Question:
    answer = f"English: {_outcomes(advice.english) or 'not measured'}."
    evidence = [_change(change) for change in advice.english]
    row = advice.vocabularies.get(advice.measured.vocabulary, {})
    changed = row.get("english_sentences_changed")
    if changed is not None and changed == changed:
        evidence.append(f"English sentences tokenized differently: {number(100 * changed, 1)} %.")
    cards = _training(study, advice)
    if len(cards) and cards["seconds"].sum() > 0:
        processes, device = int(cards["processes"].max()), cards["device"].iloc[0]
        minutes = float(cards["seconds"].mean()) / 60 * processes
        time = f"{number(minutes, 1)} minutes of {device}"
        if not device.endswith("CPU"):
            time = f"{number(minutes / 60, 2)} GPU-hours on {processes} × {device}"
        answer += f" Training: {time} ({number(cards['tokens'].mean(), 0)} tokens) per cell."
    return "What does it cost?", answer, evidence


def _certainty(study: StudyResults, advice: Recommendation) -> Question:
    """What limits the answers: seeds, examples, baselines, and scores that are noise."""
    tests = [test for test, _ in _tests(advice)]
    evidence = []
    if tests:
        counts = [test.examples for test in tests]
        ends = dict.fromkeys(number(end, 0) for end in (min(counts), max(counts)))
        evidence.append(f"Test examples per comparison: {' to '.join(ends)}.")
    if any(not test.freedom for test in tests):
        evidence.append(
            "Where no model has several seeds, a comparison covers other examples only, not other "
            "seeds."
        )
    if any(change.test is None for change in advice.quality):
        evidence.append("Only models whose outputs are recorded are tested.")
    baselines = {change.baseline.is_source for change in advice.quality}
    absent = [] if True in baselines else ["the source model"]
    if False not in baselines and advice.measured.strategy != "none":
        absent.append("training alone (LAPT)")
    if absent and advice.columns:
        evidence.append(f"The study has no scores of {listed(absent)} to compare with.")
    if advice.noise:
        noise = listed(map(_measure_name, advice.noise))
        evidence.append(f"Not counted, because every model scores too low: {noise}.")
    amounts = ((len(study.seeds), "seed"), (len(advice.columns), "measure"))
    answer = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in amounts)
    measures = listed(map(_measure_name, advice.columns)) or "none"
    return "How certain is this?", f"{answer}: {measures}.", evidence


def _speed(study: StudyResults, advice: Recommendation) -> dict[str, Any] | None:
    """The speed-up at the smallest batch: of the cell, else of one with its vocabulary.

    Generation speed depends mainly on the vocabulary.
    """
    model = advice.measured
    keys = {
        "language": advice.language,
        "source": model.source,
        "vocabulary": model.vocabulary,
    }
    rows = select(same_text_speeds(study), **keys).sort_values("batch", kind="stable")
    cells = models_of(rows)
    return rows.to_dict("records")[cells.index(model) if model in cells else 0] if cells else None


def _training(study: StudyResults, advice: Recommendation):
    """The cards of the measured cell, one per seed."""
    cards = study.training.reindex(columns=[*SEEDED, "tokens", "seconds", "processes", "device"])
    return select(cards, **advice.measured.axes(), language=advice.language)


def _tests(advice: Recommendation) -> Iterator[tuple[ScoreDifference, str]]:
    """Every test, with the name of the model compared with; those of the baselines first."""
    for change in (*advice.quality, *advice.english):
        if change.test is not None:
            yield change.test, _baseline(change.baseline, True)
    for choice in advice.choices:
        for measure in choice.measures:
            for test in measure.against_best.values():
                yield test, _value_name(advice, choice.axis, test.baseline)


def _test_row(advice: Recommendation, test: ScoreDifference, compared_with: str) -> tuple[str, ...]:
    """A row of the table of tests, whose headings are in the templates."""
    decimals = metric(test.column[2]).decimals
    ends = (test.value, test.low, test.high)
    value, low, high = (number(end, decimals, sign=True) for end in ends)
    return (
        _measure_name(test.column),
        _cell_name(advice, test.model),
        number(test.baseline_score + test.value, decimals),
        compared_with,
        number(test.baseline_score, decimals),
        value,
        f"{low} to {high}",
        p_text(test.corrected).removeprefix("p ").removeprefix("= "),
        effect_text(test.effect).removeprefix("d = "),
    )


def _outcomes(changes: list[ScoreChange]) -> str:
    """`better on 1 of 2 measures, no significant difference on 1`; for one measure, its outcome."""
    counts = Counter(change.outcome for change in changes)
    if counts.total() == 1:
        return changes[0].outcome
    parts = [f"{outcome} on {counts[outcome]}" for outcome in _OUTCOMES if counts[outcome]]
    if parts:
        parts[0] += f" of {counts.total()} measures"
    return ", ".join(parts)


def _change(change: ScoreChange) -> str:
    """A change as a sentence."""
    decimals = metric(change.column[2]).decimals
    value, level = (number(score, decimals) for score in (change.value, change.baseline_value))
    name = _baseline(change.baseline)
    return f"{_measure_name(change.column)}: {value} against {level} for {name}, {change.outcome}."


def _baseline(model: Model, with_strategy: bool = False) -> str:
    if model.is_source:
        return "the source model"
    return f"LAPT ({model.strategy})" if with_strategy else "LAPT"


def _measure_name(column: Column) -> str:
    """`chrF (translation)`."""
    return f"{metric(column[2]).title} ({column[1]})"


def _configuration(advice: Recommendation, model: Model) -> str:
    """`Align with 500 new tokens`."""
    row = advice.vocabularies.get(model.vocabulary)
    tokens = f"{number(row['new_tokens'], 0)} new tokens" if row else model.vocabulary
    return f"{row_name(model.initializer, model.strategy)} with {tokens}"


def _cell_name(advice: Recommendation, model: Model) -> str:
    """`Align with 500 new tokens, trained with full`."""
    trained = "not trained" if model.strategy == "none" else f"trained with {model.strategy}"
    return f"{_configuration(advice, model)}, {trained}"


def _value_name(advice: Recommendation, axis: str, model: Model) -> str:
    """A model's name on an axis; for a vocabulary, with its number of new tokens if recorded."""
    if axis == "initializer":
        return row_name(model.initializer, model.strategy)
    if axis == "strategy":
        return model.strategy if model.strategy != "none" else "no training"
    row = advice.vocabularies.get(model.vocabulary)
    return model.vocabulary + (f" ({number(row['new_tokens'], 0)} new tokens)" if row else "")
