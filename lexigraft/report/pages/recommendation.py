"""What to do: graft or not, which initializer, how many new tokens and which training strategy."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Any, NamedTuple

from markupsafe import Markup
from pandas import DataFrame

from lexigraft.report.frame import (
    AXES,
    CELL,
    SEEDED,
    Column,
    Model,
    StudyResults,
    models_of,
    select,
    source_model,
)
from lexigraft.report.items import page
from lexigraft.report.models import quality_columns, speed_ups
from lexigraft.report.names import listed, metric, row_name
from lexigraft.report.significance import LEVEL, RESAMPLES, score_differences
from lexigraft.report.table import number, render
from lexigraft.report.tables.fragmentation import vocabulary_sizes

# Questions on the axes in which configurations differ.
QUESTIONS = {
    "initializer": "Which initializer?",
    "vocabulary": "How many new tokens?",
    "strategy": "Which training strategy?",
}
METHOD = (
    "The best configuration has the best mean rank over all measures, among those that have the "
    "most of them. Each question compares it with the configurations that differ from it in that "
    "alone (if there are none: the best of the largest set that differs in that alone) by a paired "
    f"bootstrap over test examples and seeds: {RESAMPLES:,} resamples, p below {LEVEL} after "
    "Benjamini-Hochberg correction for all comparisons of the question. A configuration that is "
    "worse than the source model or than LAPT (the source model trained with its own vocabulary) "
    "is not recommended."
)
# Outcomes of a comparison, by precedence if there are several, with their prepositions.
_AGAINST = {
    "better": "better than",
    "worse": "worse than",
    "no significant difference": "no significant difference from",
    "not tested": "not tested against",
}
_OUTCOMES = tuple(_AGAINST)
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


class Choice(NamedTuple):
    """The choice between models that differ only in one axis of the grid."""

    axis: str
    chosen: Model
    others: list[Model]
    changes: list[Change]  # of the chosen one against the others, the best first

    @property
    def tied(self) -> list[Model]:
        """The rivals that are compared with the chosen one but not shown to be worse."""
        compared = dict.fromkeys(change.baseline for change in self.changes)
        worse = {change.baseline for change in self.changes if change.outcome == "better"}
        return [model for model in compared if model not in worse]


@dataclass(frozen=True)
class Recommendation:
    """The best configuration of one source model for one language, and what it gains and costs."""

    language: str
    model: Model
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
        """Whether to use the model.

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
        size = self.vocabularies.get(self.model.vocabulary)
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
            "measured": advice.model.axes(),
            "choices": {
                choice.axis: {
                    "chosen": getattr(choice.chosen, choice.axis),
                    "compared": [getattr(m, choice.axis) for m in (choice.chosen, *choice.others)],
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
    """For each source model and language with new tokens: the configuration with the best scores.

    It has the best mean rank over all measures among the configurations that have the most of them.
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
    """Choose a configuration, then compare it with its rivals, Source and LAPT."""
    scores = select(study.scores, source=source, language=language)
    cells = models_of(scores.drop_duplicates(AXES))
    grafts = [cell for cell in cells if not cell.baseline]
    candidates = [cell for cell in grafts if cell.strategy != "none"] or grafts
    columns = [column for column in columns if column[0] == language]
    if not candidates or not columns:
        return None
    noise = [column for column in columns if study.is_noise(source, column)]
    columns = [column for column in columns if column not in noise]
    model = _best(study, candidates, columns)
    choices = []
    for axis in QUESTIONS:
        sets: dict[tuple[str, ...], list[Model]] = {}
        for cell in candidates:
            same = tuple(getattr(cell, name) for name in QUESTIONS if name != axis)
            sets.setdefault(same, []).append(cell)
        # The set of the best configuration or, if it is alone, the largest one.
        rivals = max(sets.values(), key=lambda of: (model in of and len(of) > 1, len(of)))
        chosen = model if model in rivals else _best(study, rivals, columns)
        others = [cell for cell in rivals if cell != chosen]
        changes = _compare(study, chosen, product(others, columns))
        changes.sort(key=lambda change: (columns.index(change.column), -change.share_behind))
        choices.append(Choice(axis, chosen, others, changes))
    # LAPT with the same strategy or, without it, the study's first one trained on text only.
    lapt = [cell for cell in cells if cell.baseline and not cell.is_source]
    of_text = [cell for cell in lapt if study.is_of_text_alone(cell.strategy)]
    lapt = [cell for cell in lapt if cell.strategy == model.strategy] or of_text
    baselines = [source_model(source), *lapt[:1]]
    english = [(language, task, f"english_{name}") for _, task, name in columns]
    comparisons = [*product(baselines, columns), *product(baselines[:1], english)]
    changes = _compare(study, model, comparisons)
    return Recommendation(
        language,
        model,
        choices,
        columns,
        noise,
        {r["vocabulary"]: r for r in sizes if (r["source"], r["language"]) == (source, language)},
        quality=[change for change in changes if change.column not in english],
        english=[change for change in changes if change.column in english],
    )


def _best(study: StudyResults, candidates: list[Model], columns: list[Column]) -> Model:
    """The model with the best mean rank over all columns, among those with the most scores."""
    scores = DataFrame(
        [[_mean(study, model, column) for column in columns] for model in candidates], dtype=float
    )
    scores *= [-1 if _higher(column) else 1 for column in columns]
    known = scores.notna().sum(axis=1)
    ranks = scores[known == known.max()].rank().mean(axis=1)
    return candidates[int(ranks.fillna(1).idxmin())]


def _compare(
    study: StudyResults, model: Model, comparisons: Iterable[tuple[Model, Column]]
) -> list[Change]:
    """How a model compares with baselines on columns that both have, tested together."""
    scored = [
        (baseline, column, value, level)
        for baseline, column in comparisons
        if (value := _mean(study, model, column)) is not None
        and (level := _mean(study, baseline, column)) is not None
    ]
    differences = score_differences(study, [(model, base, column) for base, column, *_ in scored])
    tests = {(test.baseline, test.column): test for test in differences}
    changes = []
    for baseline, column, value, level in scored:
        outcome, test = "not tested", tests.get((baseline, column))
        if test:
            better = (test.value > 0) == _higher(column)
            outcome = "no significant difference"
            if test.corrected < LEVEL:
                outcome = "better" if better else "worse"
        examples = test.examples if test else 0
        changes.append(Change(baseline, column, value, level, outcome, examples))
    return changes


def _mean(study: StudyResults, model: Model, column: Column) -> float | None:
    row = study.find(model, *column)
    return None if row is None else float(row["mean"])


def _section(study: StudyResults, advice: Recommendation) -> dict[str, Any]:
    """The variables of the templates for one language and source model."""
    cell = advice.model.axes() | {"language": advice.language}
    speeds = select(speed_ups(study), **{axis: cell[axis] for axis in CELL[:3]})
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
    decision, configuration = advice.decision, advice.configuration(advice.model)

    def baselines(*outcomes: str) -> str:
        names = (_baseline(model) for model, how in advice.outcomes.items() if how in outcomes)
        return listed(names) or "the source model"

    what = {
        Decision.GRAFT: f"Graft: use {advice.cell(advice.model)}.",
        Decision.DO_NOT_GRAFT: f"Do not graft with this budget: {configuration}, the best "
        f"configuration of this study, is worse than {baselines('worse')}.",
        Decision.TRADE_OFF: f"It depends on the task: {configuration} is better than "
        f"{baselines('mixed')} on some measures and worse on others.",
        Decision.UNDECIDED: f"Not decided: {configuration} is not shown to be better than "
        f"{baselines(*_OUTCOMES[1:])}.",
    }[decision]
    if not advice.quality:
        return what, "No score above the noise compares it with a baseline."
    telling = {Decision.GRAFT: "better", Decision.DO_NOT_GRAFT: "worse"}.get(decision)
    first = next((c for c in advice.quality if c.outcome == telling), advice.quality[0])
    shown = metric(first.column[2])
    levels = listed(
        f"{number(change.level, shown.decimals)} for {_baseline(change.baseline)}"
        f" ({change.outcome})"
        for change in advice.quality
        if change.column == first.column
    )
    text = f"After {number(tokens, 0)} training tokens it reaches" if tokens > 0 else "It reaches"
    text += f" {number(first.value, shown.decimals)} {shown.title}"
    text += "" if shown.higher_is_better else " (lower is better)"
    text += f", against {levels}"
    if speed is not None:
        times = number(speed["mean"], 1)
        text += f", and writes the same text {times} times as fast as the source model"
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
    answer = " ".join(answers) or "No score above the noise compares it with a baseline."
    best = f"Best configuration: {advice.cell(advice.model)}."
    evidence = [_change(change, _baseline(change.baseline)) for change in advice.quality]
    return "Is it worth it?", answer, [best, *evidence]


def _choice(advice: Recommendation, choice: Choice) -> Question:
    """How the best configuration compares with those that differ in one axis."""
    title, chosen = QUESTIONS[choice.axis], advice.name(choice.axis, choice.chosen)
    others = {model: advice.name(choice.axis, model) for model in choice.others}
    if not others:
        return title, f"{chosen}: the study has no alternative to compare.", []
    if not choice.changes:
        return title, f"Not decided: no measure compares {listed([chosen, *others.values()])}.", []
    compared = dict.fromkeys(others[change.baseline] for change in choice.changes)
    several = len({change.column for change in choice.changes}) > 1
    answer = f"{chosen}, better than {listed(compared)}{' on some measures' * several}."
    if choice.tied:
        tied = listed(others[model] for model in choice.tied)
        answer = f"Not decided: {chosen} is best, but not shown to be better than {tied}."
    evidence = []
    for column in dict.fromkeys(change.column for change in choice.changes):
        # `bits per byte (perplexity): Align 1.43; better than Mean 1.60, Merge 1.64.`
        of_column = [change for change in choice.changes if change.column == column]
        decimals = metric(column[2]).decimals
        groups: dict[str, list[str]] = {}
        for change in of_column:
            level = number(change.level, decimals)
            groups.setdefault(change.outcome, []).append(f"{others[change.baseline]} {level}")
        parts = [f"{chosen} {number(of_column[0].value, decimals)}"]
        parts += [f"{_AGAINST[outcome]} {', '.join(names)}" for outcome, names in groups.items()]
        evidence.append(f"{_measure_name(column)}: {'; '.join(parts)}.")
    same = (f"{axis} {getattr(choice.chosen, axis)}" for axis in QUESTIONS if axis != choice.axis)
    return title, answer, [*evidence, f"All with {listed(same)}."]


def _costs(
    study: StudyResults, advice: Recommendation, speed: dict[str, Any] | None, cards: DataFrame
) -> list[Question]:
    """Length and speed, costs, and what limits the answers."""
    size = advice.vocabularies.get(advice.model.vocabulary, {})
    shorter, limits = [], []
    if size:
        before, after = (number(size[f"tokens_per_sentence{end}"], 1) for end in ("_before", ""))
        shorter.append(f"Tokens per sentence: {before} before, {after} after.")
    if speed is not None:
        shorter.append(
            f"It writes the same text {number(speed['mean'], 2)} times as fast as the "
            f"source model, in batches of {speed['batch']:.0f}."
        )
    costs = f"English: {_outcomes(advice.english) or 'not measured'}."
    if cards["seconds"].sum() > 0:
        processes, device = int(cards["processes"].max()), cards["device"].iloc[0]
        minutes = float(cards["seconds"].mean()) / 60 * processes
        time = f"{number(minutes, 1)} minutes of {device}"
        if not device.endswith("CPU"):
            time = f"{number(minutes / 60, 2)} GPU-hours on {processes} × {device}"
        costs += f" Training: {time} ({number(cards['tokens'].mean(), 0)} tokens) per cell."
    english = [_change(change, "the source model") for change in advice.english]
    changed = size.get("english_sentences_changed", math.nan)
    if changed == changed:
        english.append(f"English sentences tokenized differently: {number(100 * changed, 1)} %.")
    if examples := [c.examples for c in (*advice.quality, *advice.english) if c.examples]:
        ends = dict.fromkeys(number(end, 0) for end in (min(examples), max(examples)))
        limits.append(f"Test examples per comparison: {' to '.join(ends)}.")
    if advice.noise:
        noise = listed(map(_measure_name, advice.noise))
        limits.append(f"Not counted, because every model scores too low: {noise}.")
    measures = listed(map(_measure_name, advice.columns)) or "none"
    seeds = len(study.seeds)
    certainty = f"{seeds} seed{'s' if seeds > 1 else ''}; measures: {measures}."
    return [
        ("How much shorter and faster?", " ".join(shorter) or "Not measured.", []),
        ("What does it cost?", costs, english),
        ("How certain is this?", certainty, limits),
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


def _change(change: Change, name: str) -> str:
    """A change from a baseline of this name as a sentence."""
    decimals = metric(change.column[2]).decimals
    value, level = (number(score, decimals) for score in (change.value, change.level))
    return f"{_measure_name(change.column)}: {value} against {level} for {name}, {change.outcome}."


def _baseline(model: Model) -> str:
    return "the source model" if model.is_source else "LAPT"


def _measure_name(column: Column) -> str:
    """`chrF (translation)`."""
    return f"{metric(column[2]).title} ({column[1]})"


def _higher(column: Column) -> bool:
    return metric(column[2]).higher_is_better
