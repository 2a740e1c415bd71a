"""What to do: graft or not, which initializer, how many new tokens and which training strategy."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from typing import Any, NamedTuple

from markupsafe import Markup
from pandas import DataFrame

from lexigraft.report.frame import (
    CELL,
    SEEDED,
    Column,
    Model,
    StudyResults,
    select,
    source_model,
)
from lexigraft.report.items import page
from lexigraft.report.models import cells_of, quality_columns
from lexigraft.report.names import listed, metric, row_name
from lexigraft.report.rendering import number, render
from lexigraft.report.significance import LEVEL, RESAMPLES, score_differences
from lexigraft.report.speed import same_text_speeds
from lexigraft.report.tables.fragmentation import vocabulary_sizes

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
    "LAPT (the source model trained with its own vocabulary) is not recommended. Speed is that of "
    "another configuration with the same vocabulary if it was only measured there."
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


class Decision(StrEnum):
    """What to do; only the first recommends a model."""

    GRAFT = "graft"
    TRADE_OFF = "depends on the task"
    UNDECIDED = "not decided"
    DO_NOT_GRAFT = "do not graft"


class Measure(NamedTuple):
    """The scores of the rivals for one choice on one language, task and metric."""

    column: Column
    means: dict[Model, float]  # the best first
    p: dict[Model, float]  # of the difference from the best, if it was tested

    @property
    def leaders(self) -> list[Model]:
        """The best rival and those that are not shown to be worse."""
        return [model for model in self.means if self.p.get(model, 1.0) >= LEVEL]


class Choice(NamedTuple):
    """The choice between `rivals`, which differ only in one axis of the grid.

    `chosen` leads on most `measures`; the evidence does not decide between it and those `tied`.
    """

    axis: str
    chosen: Model
    rivals: list[Model]
    tied: tuple[Model, ...] = ()
    measures: tuple[Measure, ...] = ()


class Change(NamedTuple):
    """A score and a baseline's score, and how they compare."""

    baseline: Model
    column: Column
    value: float
    level: float
    outcome: str  # of `_OUTCOMES`
    examples: int = 0  # tested

    @property
    def share_behind(self) -> float:
        """How much worse the score is, as a share of the baseline's; negative if better."""
        behind = self.value - self.level
        return (-behind if _higher(self.column) else behind) / abs(self.level or 1)


@dataclass(frozen=True)
class Recommendation:
    """The best configuration of one source model for one language, and what it gains and costs.

    `model` combines the choices. `measured` is the cell whose scores show the gains: `model` itself
    if the study has it, otherwise the one of the last choice with measures.
    """

    language: str
    model: Model
    measured: Model
    choices: list[Choice]
    columns: list[Column]  # the measures
    noise: list[Column]  # on which all scores are too low to be informative
    vocabularies: dict[str, dict[str, Any]]  # numbers of tokens by vocabulary
    quality: list[Change]
    english: list[Change]

    @property
    def outcomes(self) -> dict[Model, str]:
        """For each baseline, the outcomes on several measures combined into one, or `mixed`."""
        outcomes: dict[Model, set[str]] = {}
        for change in self.quality:
            outcomes.setdefault(change.baseline, set()).add(change.outcome)
        return {
            baseline: "mixed"
            if {"better", "worse"} <= of_baseline
            else min(of_baseline, key=_OUTCOMES.index)
            for baseline, of_baseline in outcomes.items()
        }

    @property
    def decision(self) -> Decision:
        """Whether to use the measured cell.

        A cell that is shown to be worse than the source model or LAPT, and not better on any
        measure, is never recommended. A cell that is better than the source model is recommended if
        it is also better than LAPT, or as good with shorter text, or if LAPT was not trained.
        """
        source = [how for model, how in self.outcomes.items() if model.is_source]
        lapt = [how for model, how in self.outcomes.items() if not model.is_source]
        if "worse" in source + lapt:
            return Decision.DO_NOT_GRAFT
        if "mixed" in source + lapt:
            return Decision.TRADE_OFF
        if source != ["better"] and (source or lapt != ["better"]):
            return Decision.UNDECIDED
        if lapt in ([], ["better"]):
            return Decision.GRAFT
        behind = [c.share_behind for c in self.quality if not c.baseline.is_source]
        size = self.vocabularies.get(self.measured.vocabulary)
        shorter = size and size["tokens_per_sentence"] < size["tokens_per_sentence_before"]
        as_good = lapt == ["no significant difference"] and max(behind) <= _AS_GOOD
        return Decision.GRAFT if as_good and shorter else Decision.UNDECIDED

    def name(self, axis: str, model: Model) -> str:
        """A model's name on an axis; for a vocabulary, with its number of new tokens if known."""
        if axis == "initializer":
            return row_name(model.initializer, model.strategy)
        if axis == "strategy":
            return model.strategy if model.strategy != "none" else "no training"
        row = self.vocabularies.get(model.vocabulary)
        return model.vocabulary + (f" ({number(row['new_tokens'], 0)} new tokens)" if row else "")

    def configuration(self, model: Model) -> str:
        """`Align with 500 new tokens`."""
        row = self.vocabularies.get(model.vocabulary)
        tokens = f"{number(row['new_tokens'], 0)} new tokens" if row else model.vocabulary
        return f"{self.name('initializer', model)} with {tokens}"

    def cell(self, model: Model) -> str:
        """`Align with 500 new tokens, trained with full`."""
        trained = "not trained" if model.strategy == "none" else f"trained with {model.strategy}"
        return f"{self.configuration(model)}, {trained}"


@page(
    title="Recommendation",
    caption="Whether to graft at all and, if so, with which initializer, how many new tokens and "
    "which training strategy, for each language and source model; the gains, the costs, and how "
    "certain they are. If the evidence is inconclusive or negative, the page says so.",
    empty="no cell with new tokens has a quality score",
)
def recommendation(study: StudyResults, title: str, caveats: list[str]) -> Page:
    """One page, with the reasons for the decision; only its Markdown has the title and caveats."""
    recommended = recommend(study)
    content: dict[str, Any] = {
        "sections": [_section(study, advice) for advice in recommended],
        "method": METHOD,
        "nothing": "No cell with new tokens has a quality score: there is nothing to recommend.",
    }
    markdown = render("recommendation.md.j2", title=title, caveats=caveats, **content)
    body = Markup(render("recommendation.html.j2", **content))
    numbers = [
        {
            "language": advice.language,
            **advice.model.axes(),
            "measured": advice.measured.axes(),
            "choices": {
                choice.axis: {
                    "chosen": getattr(choice.chosen, choice.axis),
                    "compared": [getattr(model, choice.axis) for model in choice.rivals],
                    "tied": [getattr(model, choice.axis) for model in choice.tied],
                }
                for choice in advice.choices
            },
            "verdict": advice.decision,
            "export": section["export"],
        }
        for advice, section in zip(recommended, content["sections"], strict=True)
    ]
    return Page(markdown, body, numbers)


def recommend(study: StudyResults) -> list[Recommendation]:
    """For each source model and language with new tokens: the configuration that scores favour.

    Axes are chosen one after the other, since a grid is rarely complete. Rivals differ only in one
    axis. On every measure that all of them have, the leaders are the best one and those that are
    not shown to be worse. The rival that leads on most measures is chosen, so a measure that does
    not separate rivals has no influence.
    """
    key = ("recommendations", *sorted(study.item.where.items()))
    if key not in study.cache:
        columns, sizes = quality_columns(study), vocabulary_sizes(study).to_dict("records")
        panels = product(study.order("source"), study.order("language"))
        recommended = [_recommend(study, *panel, columns, sizes) for panel in panels]
        study.cache[key] = [advice for advice in recommended if advice is not None]
    return study.cache[key]


def _recommend(
    study: StudyResults, source: str, language: str, columns: list[Column], sizes: list[dict]
) -> Recommendation | None:
    """Choose on each axis, then compare the choice with Source and LAPT."""
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
    # LAPT with the same strategy or, without it, the study's first one trained on text only.
    lapt = [cell for cell in cells if cell.baseline and not cell.is_source]
    of_text = [cell for cell in lapt if study.is_of_text_alone(cell.strategy)]
    lapt = [cell for cell in lapt if cell.strategy == measured.strategy] or of_text
    baselines = [source_model(source), *lapt[:1]]
    english = [(language, task, f"english_{name}") for _, task, name in columns]
    comparisons = [*product(columns, baselines), *product(english, baselines[:1])]
    tests = {
        (test.column, test.baseline): test
        for test in score_differences(study, [(measured, b, column) for column, b in comparisons])
    }
    changes = []
    for column, baseline in comparisons:
        means = _means(study, [measured, baseline], column)
        if len(means) == 2:
            test, outcome = tests.get((column, baseline)), "not tested"
            if test:
                better = (test.value > 0) == _higher(column)
                outcome = "no significant difference"
                if test.corrected < LEVEL:
                    outcome = "better" if better else "worse"
            examples = test.examples if test else 0
            changes.append(
                Change(baseline, column, means[measured], means[baseline], outcome, examples)
            )
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
    fixed_axes = [name for name in QUESTIONS if name != axis]
    groups: dict[tuple[str, ...], list[Model]] = {}
    for candidate in candidates:
        groups.setdefault(tuple(getattr(candidate, a) for a in fixed_axes), []).append(candidate)

    def preference(group: list[Model]) -> tuple[bool, int, int, bool]:
        agrees = sum(getattr(group[0], a) == getattr(model, a, None) for a in fixed_axes)
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
        (model, best, column) for column, (best, *behind) in shared.items() for model in behind
    ]
    tests = score_differences(study, comparisons)
    measures = tuple(
        Measure(
            column, means, {test.model: test.corrected for test in tests if test.column == column}
        )
        for column, means in shared.items()
    )

    def rank(model: Model) -> tuple[int, int]:
        leads = sum(model in measure.leaders for measure in measures)
        return -leads, sum(list(measure.means).index(model) for measure in measures)

    chosen, *behind = sorted(rivals, key=rank)
    tied = tuple(model for model in behind if rank(model)[0] == rank(chosen)[0])
    return Choice(axis, chosen, rivals, tied, measures)


def _means(study: StudyResults, models: list[Model], column: Column) -> dict[Model, float]:
    """The score of each model that has one, the best first."""
    rows = {model: study.find(model, *column) for model in models}
    means = {model: float(row["mean"]) for model, row in rows.items() if row is not None}
    return dict(sorted(means.items(), key=lambda pair: pair[1], reverse=_higher(column)))


def _section(study: StudyResults, advice: Recommendation) -> dict[str, Any]:
    """The variables of the templates for one language and source model."""
    cell = advice.measured.axes() | {"language": advice.language}
    speeds = select(same_text_speeds(study), **{axis: cell[axis] for axis in CELL[:3]})
    speeds = speeds.sort_values("batch", kind="stable")
    of_cell = select(speeds, **cell)  # speed mainly depends on the vocabulary
    speed = next(iter((of_cell if len(of_cell) else speeds).to_dict("records")), None)
    cards = study.training.reindex(columns=[*SEEDED, "tokens", "seconds", "processes", "device"])
    cards = select(cards, **cell)
    seeds = [k for k in study.exports if cell.items() <= dict(zip(SEEDED, k, strict=True)).items()]
    return {
        "heading": f"{study.language(advice.language)}, {advice.model.source}",
        "recommended": advice.decision == Decision.GRAFT,
        "verdict": _verdict(advice, speed, cards["tokens"].mean()),
        "questions": [
            _worth(advice),
            *(_choice(advice, choice) for choice in advice.choices),
            *_costs(study, advice, speed, cards),
        ],
        "export": study.exports[min(seeds, key=lambda key: key[-1])] if seeds else "",
    }


def _verdict(
    advice: Recommendation, speed: dict[str, Any] | None, tokens: float
) -> tuple[str, str]:
    """What to do, and the first measure that shows it, as two sentences."""
    decision = advice.decision
    names: dict[str, list[str]] = {}
    for model, outcome in advice.outcomes.items():
        names.setdefault(outcome, []).append(_baseline(model))
    open_to = [_baseline(model) for model, how in advice.outcomes.items() if how != "better"]
    configuration = advice.configuration(advice.measured)
    what = {
        Decision.GRAFT: f"Graft: use {advice.cell(advice.measured)}.",
        Decision.DO_NOT_GRAFT: f"Do not graft with this budget: {configuration}, the best "
        f"configuration of this study, is worse than {listed(names.get('worse', ()))}.",
        Decision.TRADE_OFF: f"It depends on the task: {configuration} is better than "
        f"{listed(names.get('mixed', ()))} on some measures and worse on others.",
        Decision.UNDECIDED: f"Not decided: {configuration} is not shown to be better than "
        f"{listed(open_to or ['the source model'])}.",
    }[decision]
    if not advice.quality:
        return what, "No score above the noise compares it with a baseline."
    telling = {Decision.GRAFT: "better", Decision.DO_NOT_GRAFT: "worse"}.get(decision)
    first = next((c for c in advice.quality if c.outcome == telling), advice.quality[0])
    shown = metric(first.column[2])
    levels = listed(
        f"{number(change.level, shown.decimals)} for {_baseline(change.baseline)}"
        for change in advice.quality
        if change.column == first.column
    )
    text = f"After {number(tokens, 0)} training tokens it reaches" if tokens > 0 else "It reaches"
    text += f" {number(first.value, shown.decimals)} {shown.title}"
    text += "" if shown.higher_is_better else " (lower is better)"
    text += f", against {levels}"
    if speed is not None:
        times = number(speed["speed_up"], 1)
        text += f", and writes the same text {times} times as fast as the source model"
    for outcome, chance in zip(_OUTCOMES[2:], ("may be chance", "was not tested"), strict=True):
        if outcome in names:
            text += f"; the difference from {listed(names[outcome])} {chance}"
    if decision == Decision.GRAFT and all(c.baseline.is_source for c in advice.quality):
        text += "; whether training alone (LAPT) does as well is not known"
    return what, f"{text}."


# A question, its answer in one sentence, and the evidence, one sentence each.
Question = tuple[str, str, list[str]]


def _worth(advice: Recommendation) -> Question:
    """How the best configuration compares with the baselines."""
    answers = []
    for baseline in dict.fromkeys(change.baseline for change in advice.quality):
        changes = [change for change in advice.quality if change.baseline == baseline]
        title = _baseline(baseline) + ("" if baseline.is_source else f" ({baseline.strategy})")
        answers.append(f"Compared with {title}: {_outcomes(changes)}.")
    evidence = f"Best configuration: {advice.cell(advice.measured)}."
    if advice.measured != advice.model:
        evidence += " The combination of the choices is not in the study."
    answer = " ".join(answers) or "No score above the noise compares it with a baseline."
    return "Is it worth it?", answer, [evidence, *map(_change, advice.quality)]


def _choice(advice: Recommendation, choice: Choice) -> Question:
    title, chosen, measures = QUESTIONS[choice.axis], choice.chosen, choice.measures
    names = {rival: advice.name(choice.axis, rival) for rival in choice.rivals}
    if len(names) == 1:
        return title, f"{names[chosen]}: the study has no alternative to compare.", []
    if not measures:
        return title, f"Not decided: no measure compares {listed(names.values())}.", []
    on = f"{sum(chosen in m.leaders for m in measures)} of {len(measures)} measures"
    if choice.tied:
        tied = listed(names[rival] for rival in (chosen, *choice.tied))
        answer = f"Not decided: {tied} each lead on {on}; {names[chosen]} has the best mean rank."
    else:
        behind = listed(name for rival, name in names.items() if rival != chosen)
        answer = f"{names[chosen]} leads on {on}, more than {behind}."
    evidence = []
    for measure in measures:
        # `bits per byte (perplexity): best Align 1.43; not shown to be worse: Merge 1.44.`
        groups: dict[str, list[str]] = {}
        for rank, (model, mean) in enumerate(measure.means.items()):
            group = "not shown to be worse:" if model in measure.leaders else "worse:"
            if model not in measure.p:
                group = "not tested:" if rank else "best"
            score = number(mean, metric(measure.column[2]).decimals)
            groups.setdefault(group, []).append(f"{names[model]} {score}")
        scores = "; ".join(f"{group} {', '.join(rivals)}" for group, rivals in groups.items())
        evidence.append(f"{_measure_name(measure.column)}: {scores}.")
    same = listed(f"{axis} {getattr(chosen, axis)}" for axis in QUESTIONS if axis != choice.axis)
    return title, answer, [*evidence, f"All with {same}."]


def _costs(
    study: StudyResults, advice: Recommendation, speed: dict[str, Any] | None, cards: DataFrame
) -> list[Question]:
    """Length and speed, costs, and what limits the answers."""
    size = advice.vocabularies.get(advice.measured.vocabulary, {})
    shorter, limits = [], []
    if size:
        before, after = (number(size[f"tokens_per_sentence{end}"], 1) for end in ("_before", ""))
        shorter.append(f"Tokens per sentence: {before} before, {after} after.")
    if speed is not None:
        shorter.append(
            f"It writes the same text {number(speed['speed_up'], 2)} times as fast as the "
            f"source model, in batches of {speed['batch']}."
        )
    costs = f"English: {_outcomes(advice.english) or 'not measured'}."
    if cards["seconds"].sum() > 0:
        processes, device = int(cards["processes"].max()), cards["device"].iloc[0]
        minutes = float(cards["seconds"].mean()) / 60 * processes
        time = f"{number(minutes, 1)} minutes of {device}"
        if not device.endswith("CPU"):
            time = f"{number(minutes / 60, 2)} GPU-hours on {processes} × {device}"
        costs += f" Training: {time} ({number(cards['tokens'].mean(), 0)} tokens) per cell."
    english = [*map(_change, advice.english)]
    changed = size.get("english_sentences_changed", math.nan)
    if changed == changed:
        english.append(f"English sentences tokenized differently: {number(100 * changed, 1)} %.")
    amounts = ((len(study.seeds), "seed"), (len(advice.columns), "measure"))
    certainty = ", ".join(f"{n} {name}{'' if n == 1 else 's'}" for n, name in amounts)
    if examples := [c.examples for c in (*advice.quality, *advice.english) if c.examples]:
        ends = dict.fromkeys(number(end, 0) for end in (min(examples), max(examples)))
        limits.append(f"Test examples per comparison: {' to '.join(ends)}.")
    if advice.noise:
        noise = listed(map(_measure_name, advice.noise))
        limits.append(f"Not counted, because every model scores too low: {noise}.")
    measures = listed(map(_measure_name, advice.columns)) or "none"
    return [
        ("How much shorter and faster?", " ".join(shorter) or "Not measured.", []),
        ("What does it cost?", costs, english),
        ("How certain is this?", f"{certainty}: {measures}.", limits),
    ]


def _outcomes(changes: list[Change]) -> str:
    """`better on 1 of 2 measures, no significant difference on 1`; for one measure, its outcome."""
    counts = Counter(change.outcome for change in changes)
    if counts.total() == 1:
        return changes[0].outcome
    parts = [f"{outcome} on {counts[outcome]}" for outcome in _OUTCOMES if counts[outcome]]
    if parts:
        parts[0] += f" of {counts.total()} measures"
    return ", ".join(parts)


def _change(change: Change) -> str:
    """A change as a sentence."""
    decimals = metric(change.column[2]).decimals
    value, level = (number(score, decimals) for score in (change.value, change.level))
    name = _baseline(change.baseline)
    return f"{_measure_name(change.column)}: {value} against {level} for {name}, {change.outcome}."


def _baseline(model: Model) -> str:
    return "the source model" if model.is_source else "LAPT"


def _measure_name(column: Column) -> str:
    """`chrF (translation)`."""
    return f"{metric(column[2]).title} ({column[1]})"


def _higher(column: Column) -> bool:
    return metric(column[2]).higher_is_better
