"""Whether the scores of a study support new tokens at all, and what is missing to decide.

A recommendation is compared with two baselines: the unchanged source model, and LAPT, the source
model trained with its own vocabulary.
"""

import math
from enum import StrEnum
from typing import NamedTuple

from lexigraft.report.before_after import METRIC
from lexigraft.report.metrics import metric
from lexigraft.report.models import Column, Model
from lexigraft.report.names import listed, row_name
from lexigraft.report.paired_tests import PairedTest
from lexigraft.report.recommendation import Gains, Recommendation, ScoreChange
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import select
from lexigraft.report.table import number

# Held-out bits per byte are still falling if they fell by this share in the second half of
# training.
_FALLING = 0.01
# A score that is worse than LAPT's by at most this share counts as equally good, if it is not shown
# to be worse.
_AS_GOOD = 0.02
# A difference that needs more than this multiple of the test examples is too small to test.
_HOPELESS = 100


class Decision(StrEnum):
    """What to do; only the first recommends a model."""

    GRAFT = "graft"
    TRADE_OFF = "depends on the task"
    UNDECIDED = "not decided"
    DO_NOT_GRAFT = "do not graft"


class Verdict(NamedTuple):
    """The decision, two sentences that explain it, and what is missing to decide more.

    `missing` has one sentence each, the most important first.
    """

    decision: Decision
    sentences: tuple[str, str]
    missing: list[str]


def judge(study: StudyResults, found: Recommendation, gained: Gains) -> Verdict:
    """Compare the measured cell of a recommendation with both baselines.

    A cell that is shown to be worse than one of them, and not better on any measure, is never
    recommended. A cell that is better than the source model is recommended if it is also better
    than LAPT, or as good with shorter text; without LAPT, the sentences say that it was not
    trained.
    """
    decision = _decide(found, gained)
    sentences = (_first(found, gained, decision), _second(found, gained, decision))
    missing = [
        *_missing_baselines(found, gained),
        *_missing_training(study, found, gained),
        *_missing_examples(found, gained),
        *_missing_cells(study, found),
    ]
    return Verdict(decision, sentences, missing)


def baseline_name(model: Model) -> str:
    """The name of a baseline in a sentence."""
    return "the source model" if model.is_source else "LAPT"


def measure_name(column: Column) -> str:
    """`chrF (translation)`."""
    return f"{metric(column[2]).title} ({column[1]})"


def configuration(found: Recommendation, model: Model) -> str:
    """`Align with 500 new tokens`."""
    row = found.vocabularies.get(model.vocabulary)
    tokens = f"{number(row['new_tokens'], 0)} new tokens" if row else model.vocabulary
    return f"{row_name(model.initializer, model.strategy)} with {tokens}"


def cell_name(found: Recommendation, model: Model) -> str:
    """`Align with 500 new tokens, trained with full`."""
    trained = "not trained" if model.strategy == "none" else f"trained with {model.strategy}"
    return f"{configuration(found, model)}, {trained}"


def value_name(found: Recommendation, axis: str, model: Model) -> str:
    """A model's name on an axis; for a vocabulary, with its number of new tokens if recorded."""
    if axis == "initializer":
        return row_name(model.initializer, model.strategy)
    if axis == "strategy":
        return model.strategy if model.strategy != "none" else "no training"
    row = found.vocabularies.get(model.vocabulary)
    return model.vocabulary + (f" ({number(row['new_tokens'], 0)} new tokens)" if row else "")


def _decide(found: Recommendation, gained: Gains) -> Decision:
    outcomes = gained.outcomes
    source = [one for model, one in outcomes.items() if model.is_source]
    lapt = [one for model, one in outcomes.items() if not model.is_source]
    if "worse" in outcomes.values():
        return Decision.DO_NOT_GRAFT
    if "mixed" in outcomes.values():
        return Decision.TRADE_OFF
    if source != ["better"] and (source or lapt != ["better"]):
        return Decision.UNDECIDED
    if lapt in ([], ["better"]):
        return Decision.GRAFT
    as_good = lapt == ["no significant difference"] and not any(
        _share_behind(one) > _AS_GOOD for one in gained.quality if not one.baseline.is_source
    )
    return Decision.GRAFT if as_good and _is_shorter(found) else Decision.UNDECIDED


def _share_behind(change: ScoreChange) -> float:
    """How much worse a score is than the baseline's, as a share of it; negative if better."""
    behind = change.value - change.baseline_value
    lower = metric(change.column[2]).lower_is_better
    return (behind if lower else -behind) / abs(change.baseline_value or 1)


def _is_shorter(found: Recommendation) -> bool:
    row = found.vocabularies.get(found.measured.vocabulary)
    return row is not None and (
        row["tokens_per_sentence_after"] < row["tokens_per_sentence_before"]
    )


def _first(found: Recommendation, gained: Gains, decision: Decision) -> str:
    """The first sentence: what to do."""
    outcomes = gained.outcomes
    chosen = configuration(found, found.measured)
    if decision == Decision.GRAFT:
        return f"Graft: use {cell_name(found, found.measured)}."
    if decision == Decision.UNDECIDED and "better" in outcomes.values():
        better = listed([baseline_name(one) for one, how in outcomes.items() if how == "better"])
        rest = [f"{'better than' if one.is_source else 'as good as'} {baseline_name(one)}"
                for one, how in outcomes.items() if how != "better"]  # fmt: skip
        return f"Not decided: {chosen} is better than {better}, but not shown to be {listed(rest)}."
    if decision == Decision.UNDECIDED:
        return "Not decided: this study does not show that new tokens help."
    if decision == Decision.DO_NOT_GRAFT:
        worse = listed([baseline_name(one) for one, how in outcomes.items() if how == "worse"])
        return (f"Do not graft with this budget: {chosen}, the best configuration of this study, "
                f"is worse than {worse}.")  # fmt: skip
    baseline = next(one for one, how in outcomes.items() if how == "mixed")
    on = {
        how: listed([measure_name(one.column) for one in gained.quality
                     if one.baseline == baseline and one.verdict == how])
        for how in ("better", "worse")
    }  # fmt: skip
    return (f"It depends on the task: compared with {baseline_name(baseline)}, {chosen} is better "
            f"on {on['better']} and worse on {on['worse']}.")  # fmt: skip


def _second(found: Recommendation, gained: Gains, decision: Decision) -> str:
    """The second sentence: the numbers of the first measure that shows the decision."""
    if not gained.quality:
        return "No score above the noise compares it with a baseline."
    telling = {Decision.GRAFT: "better", Decision.DO_NOT_GRAFT: "worse"}.get(decision)
    first = next((one for one in gained.quality if one.verdict == telling), gained.quality[0])
    shown = metric(first.column[2])
    tokens = gained.training.tokens if gained.training else 0
    text = (f"{'After' if tokens else 'It reaches'} "
            f"{f'{number(tokens, 0)} training tokens it reaches ' if tokens else ''}"
            f"{number(first.value, shown.decimals)} {shown.title}"
            f"{' (lower is better)' if shown.lower_is_better else ''}, against ")  # fmt: skip
    own = [one for one in gained.quality if one.column == first.column]
    text += listed([f"{number(one.baseline_value, shown.decimals)} for "
                    f"{baseline_name(one.baseline)}" for one in own])  # fmt: skip
    if gained.speed is not None:
        text += (f", and writes the same text {number(gained.speed.ratio, 1)} times as fast as the "
                 "source model")  # fmt: skip
    elif _is_shorter(found):
        row = found.vocabularies[found.measured.vocabulary]
        ratio = row["tokens_per_sentence_before"] / row["tokens_per_sentence_after"]
        text += f", and the same text has {number(ratio, 1)} times fewer tokens"
    for how, chance in (("no significant difference", "may be chance"),
                        ("not tested", "was not tested")):  # fmt: skip
        if names := [baseline_name(one) for one, what in gained.outcomes.items() if what == how]:
            text += f"; the difference from {listed(names)} {chance}"
    if decision == Decision.GRAFT and all(one.baseline.is_source for one in gained.quality):
        text += "; whether training alone (LAPT) does as well is not known"
    return f"{text}."


def _missing_baselines(found: Recommendation, gained: Gains) -> list[str]:
    """Baselines that the study lacks, informative scores, and recorded outputs."""
    if not found.columns:
        return [
            "Scores above the noise: every model scores too low on every task. Measure bits per "
            "byte (task perplexity), train longer, or use a larger source model."
        ]
    baselines = [(True, "the unmodified source model", "none")]
    if found.measured.strategy != "none":
        baselines.append((False, "training alone (LAPT)", found.measured.strategy))
    have = {one.is_source for one in gained.outcomes}
    text = [
        f"A baseline, {name}: cells with `vocabularies: [source]`, `initializers: [none]`, "
        f"`strategies: [{strategy}]`."
        for is_source, name, strategy in baselines
        if is_source not in have
    ]
    if any(one.test is None for one in gained.quality):
        text.append("Recorded outputs of all models: without them, differences are not tested.")
    return text


def _missing_training(study: StudyResults, found: Recommendation, gained: Gains) -> list[str]:
    """Training tokens, if the model is not better than a baseline and its curve still falls.

    If the learning rate falls to zero, every curve is flat at its end, so the second half of the
    training is considered.
    """
    behind = [one for one, how in gained.outcomes.items() if how not in ("better", "mixed")]
    points = _heldout_curve(study, found)
    if not behind or len(points) < 2:
        return []
    tokens, end = points[-1]
    first_half = [point for point in points[:-1] if point[0] <= tokens / 2]
    before, level = first_half[-1] if first_half else points[0]
    if level - end < _FALLING * level:
        return [f"Another strategy or vocabulary rather than more training of this kind: held-out "
                f"{metric(METRIC).title} did not improve in the second half, from "
                f"{number(before, 0)} to {number(tokens, 0)} tokens."]  # fmt: skip
    text = (f"Training tokens: held-out {metric(METRIC).title} still fell in the second half of "
            f"training, from {number(level, 2)} after {number(before, 0)} tokens to "
            f"{number(end, 2)} after {number(tokens, 0)}")  # fmt: skip
    gaps: dict[Model, float] = {}  # on the first text only, which is that of the curve
    for one in gained.quality:
        if one.column[2] == METRIC and one.baseline in behind:
            gaps.setdefault(one.baseline, one.value - one.baseline_value)
    # The curve is convex, so that linear extrapolation yields too few tokens.
    reached = [
        f"{number(_rounded_up(gap * (tokens - before) / (level - end)), 0)} more to reach "
        f"{baseline_name(baseline)}"
        for baseline, gap in gaps.items()
        if gap > 0
    ]
    if reached:
        text += (f". At this pace it would take at least {listed(reached)}; curves flatten, so "
                 "plan for several times as many")  # fmt: skip
    return [f"{text}."]


def _missing_examples(found: Recommendation, gained: Gains) -> list[str]:
    """Test examples, if a comparison or a choice was tested and is not decided."""
    undecided: dict[tuple[str, Column], list[PairedTest]] = {}
    for one in gained.quality:
        if one.test and one.verdict == "no significant difference":
            purpose = f"to distinguish it from {baseline_name(one.baseline)}"
            undecided[purpose, one.column] = [one.test]
    for choice in found.choices:
        for measure in choice.measures:
            known = measure.against_best
            if tied := [known[model] for model in choice.tied if model in known]:
                undecided[f"to decide on the {choice.axis}", measure.column] = [*tied]
    text = []
    for (purpose, column), tests in undecided.items():
        needed = max(_times_as_many(test) * test.examples for test in tests)
        most = max(_HOPELESS * test.examples for test in tests)
        count = f"about {number(_rounded_up(needed), 0)}" if needed <= most else (
            f"more than {number(most, 0)}")  # fmt: skip
        seeds = ", and more seeds," if any(test.freedom for test in tests) else ""
        now = number(max(test.examples for test in tests), 0)
        text.append(f"Test examples, {purpose} by {measure_name(column)}: {count}{seeds} instead "
                    f"of {now}.")  # fmt: skip
    return text


def _missing_cells(study: StudyResults, found: Recommendation) -> list[str]:
    text = []
    if found.measured != found.model:
        text.append(f"The cell that combines the choices, {cell_name(found, found.model)}: it is "
                    "not in the study.")  # fmt: skip
    if len(study.seeds) < 2:
        text.append("A second seed: the variation of scores between seeds is unknown.")
    return text


def _heldout_curve(study: StudyResults, found: Recommendation) -> list[tuple[float, float]]:
    """Training tokens and held-out bits per byte of the measured cell, means over its seeds."""
    curves = study.curves
    if not {METRIC, "tokens"} <= set(curves):
        return []
    own = select(curves, **found.measured.keys(), language=found.language, event="heldout")
    points = own[own[METRIC].notna()].groupby("step")[["tokens", METRIC]].mean()
    return [(float(tokens), float(level)) for tokens, level in points.itertuples(index=False)]


def _times_as_many(test: PairedTest) -> float:
    """The multiple of the test examples that makes a difference of this size significant.

    The interval narrows with the square root of their number, until it excludes zero. It is not
    corrected for other comparisons, so this is a lower bound.
    """
    reach = test.value - test.low if test.value > 0 else test.high - test.value
    return max(1.1, (reach / test.value) ** 2) if test.value else math.inf


def _rounded_up(value: float) -> float:
    """Round up to two significant digits."""
    step = 10 ** max(0, math.floor(math.log10(value)) - 1)
    return math.ceil(value / step) * step
