"""How much faster than its source model a model writes, on other text and when measured again."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lexigraft.randomness import generator
from lexigraft.report.bootstrap import (
    Scores,
    Spread,
    compare,
    corrected,
    draws,
    effect_size,
    over_seeds,
    repeat_noise,
    run_scores,
    seed_noise,
    seed_spread,
)
from lexigraft.report.metrics import speed_of
from lexigraft.report.models import Model
from lexigraft.report.significance import RESAMPLES, Column, Starred
from lexigraft.report.study import Predictions
from lexigraft.report.study import StudyResults as Study

if TYPE_CHECKING:
    import numpy as np

SAME_TEXT = "same_text_characters"
_AXES = ("source", "vocabulary", "initializer", "strategy")


@dataclass(frozen=True)
class SpeedUp(Starred):
    """One model's characters per second over its source model's, on the same text.

    Attributes
    ----------
    value, low, high
        The ratio, and the ends of its 95 % interval.
    p
        Two-sided, of no difference; missing where nothing says how measurements differ.
    corrected
        The same, corrected for all speed-ups that were tested together.
    effect
        Cohen's d over sentences, of the logarithm of how much faster each is written; missing
        where a text is so large that groups of them are kept.
    sentences
        Of the text.
    freedom
        Degrees of freedom of the spread between measurements; 0: only repeats of each are known.
    """

    model: Model
    column: Column
    value: float
    low: float
    high: float
    p: float
    corrected: float
    effect: float
    sentences: int
    freedom: int

    def numbers(self) -> dict[str, float | int]:
        """What a CSV file has of it beside its value."""
        return {
            "speed_up_low": self.low,
            "speed_up_high": self.high,
            "p": self.p,
            "p_corrected": self.corrected,
            "effect_size": self.effect,
            "tested_examples": self.sentences,
            "measurement_freedom": self.freedom,
        }


@dataclass(frozen=True)
class _Measured:
    """A model's measurements, by seed and run: processes of their own.

    `characters` and `tokens` are of each sentence, or group of so many `sentences`, by its name;
    `repeats` the decoding seconds of each timed pass, `rates` the model's steps per second.
    """

    sentences: dict[str, int]
    characters: dict[str, int]
    tokens: dict[str, int]
    repeats: dict[tuple[int, int], list[float]]
    rates: dict[tuple[int, int], float]


def speed_ups_tested(
    study: Study, models: Sequence[Model], columns: Iterable[Column]
) -> list[SpeedUp]:
    """Compare the speed of each model with its source model's.

    Characters per second on the same text are those of the text over the steps that a vocabulary
    takes for it, times the steps per second that were measured. So two things could have come out
    otherwise. The text: its sentences are drawn with replacement, the same for both models. And
    the measurement: what doing it again would change is drawn from Student's t, with the deviation
    between measurements. Models of one vocabulary do the same work, whatever their weights are, so
    how much their speeds differ is how much measurements do; it is pooled over the vocabularies of
    a source model. Where each was measured once, the repeats of a measurement alone tell: an
    interval is made of them, but no p, for they are of one process in one minute.

    Ratios are compared by their logarithms.

    Parameters
    ----------
    columns
        Of characters per second on the same text; others are not tested.
    """
    sources = {model.source: model for model in models if model.is_source}
    kept = _by_task(study.predictions)
    found: list[SpeedUp] = []
    for column in dict.fromkeys(columns):
        parsed = speed_of(column[2])
        if parsed is None or parsed[0] != SAME_TEXT:
            continue
        own = [model for model in models if model.source in sources]
        measured = _measurements(kept.get(column[:2], []), own, column[2], parsed[1])
        spreads = _spreads(study, column)
        scores, alone = _scores(measured, column, parsed[1])
        for model in own:
            source = sources[model.source]
            if model.is_source or model not in measured or source not in measured:
                continue
            between = spreads[model.source]
            names = [name for one in (model, source) for name in one.keys().values()]
            rng = generator("report", "seeds", *column, *names)
            pair = (measured[model], measured[source])
            noise = _noise(between, pair, rng)
            if noise is None:
                continue
            apart = {*measured[source].sentences.values()} == {1}
            ours, theirs = (_logarithm(scores[one]) for one in (model, source))
            difference = compare(ours, theirs, noise)
            found.append(
                SpeedUp(
                    model,
                    column,
                    math.exp(difference.value),
                    math.exp(difference.low),
                    math.exp(difference.high),
                    p=difference.p if between.freedom else math.nan,
                    corrected=math.nan,
                    effect=effect_size(alone[model], alone[source]) if apart else math.nan,
                    sentences=sum(measured[source].sentences.values()),
                    freedom=between.freedom,
                )
            )
    known = [one for one in found if one.freedom]
    ps = iter(corrected([one.p for one in known]))
    return [replace(one, corrected=next(ps)) if one.freedom else one for one in found]


def _measurements(
    kept: list[Predictions], models: Sequence[Model], metric: str, batch: int
) -> dict[Model, _Measured]:
    """The measurements of each model that kept the lengths of sentences."""
    found: dict[Model, _Measured] = {}
    for one in kept:
        model = _model_of(one)
        timing = _timing(one, batch)
        if model not in models or timing is None:
            continue
        repeats, rate = timing
        if model not in found:
            found[model] = _lengths(one.rows())
        key = (one.cell["seed"], one.run)
        # What a table shows must be what is tested.
        own = found[model]
        text = sum(own.characters.values()) / max(sum(own.tokens.values()), 1)
        recorded = one.metrics.get(metric, math.nan)
        if math.isclose(rate * batch * text, recorded, rel_tol=1e-4):
            own.repeats[key], own.rates[key] = repeats, rate
    return {model: own for model, own in found.items() if own.rates}


def _lengths(rows: list[dict[str, Any]]) -> _Measured:
    """A model of which nothing was timed yet."""
    sentences, characters, tokens = (
        {row["id"]: row[unit] for row in rows} for unit in ("sentences", "characters", "tokens")
    )
    return _Measured(sentences, characters, tokens, {}, {})


def _scores(
    measured: dict[Model, _Measured], column: Column, batch: int
) -> tuple[dict[Model, Scores], dict[Model, Scores]]:
    """Characters per second in each resample, and logarithms of those of each sentence."""
    import numpy as np

    names = sorted({name for own in measured.values() for name in own.tokens})
    language, task, _ = column
    scores: dict[Model, list[dict[tuple[int, int], np.ndarray]]] = {m: [] for m in measured}
    texts = {
        model: np.array([[own.characters.get(name, 0), own.tokens.get(name, 0)] for name in names],
                        dtype=np.float64)
        for model, own in measured.items()
    }  # fmt: skip
    # Whatever the batch, it is the same text.
    rng = generator("report", "bootstrap", language, task, SAME_TEXT)
    for counts in draws(len(names), RESAMPLES, rng) if names else ():
        for model, own in measured.items():
            per_step = run_scores({(0, 0): texts[model]}, counts, _per_token)[0, 0]
            part = {key: batch * rate * per_step for key, rate in own.rates.items()}
            scores[model].append(part)
    whole: dict[Model, Scores] = {
        model: {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        for model, parts in scores.items()
    }
    alone: dict[Model, Scores] = {}
    for model, text in texts.items():
        steps = over_seeds(whole[model])[0] / _per_token(text.sum(axis=0))
        with np.errstate(divide="ignore"):
            alone[model] = {(0, 0): np.log(steps * _per_token(text))}
    return whole, alone


def _per_token(totals: "np.ndarray") -> "np.ndarray":
    """Characters of a token: [..., 2] -> [...]."""
    import numpy as np

    return totals[..., 0] / np.maximum(totals[..., 1], 1)


def _logarithm(scores: Scores) -> Scores:
    """The logarithm of a model's score, as that of a model with one measurement."""
    import numpy as np

    return {(0, 0): np.log(over_seeds(scores))}


def _spreads(study: Study, column: Column) -> dict[str, Spread]:
    """How much measurements of the same work differ, as logarithms, by source model."""
    own = (study.whole or study).scores
    own = own[own["value"] > 0]
    for axis, name in zip(("language", "task", "metric"), column, strict=True):
        own = own[own[axis] == name]
    rates: dict[str, dict[str, list[float]]] = {}
    for source, vocabulary, rate in own[["source", "vocabulary", "value"]].itertuples(index=False):
        rates.setdefault(source, {}).setdefault(vocabulary, []).append(math.log(rate))
    return {source: seed_spread(alike.values()) for source, alike in rates.items()}


def _noise(
    between: Spread, pair: tuple[_Measured, _Measured], rng: "np.random.Generator"
) -> "np.ndarray | None":
    """What measuring both models again would add; None where nothing tells."""
    if between.freedom:
        return seed_noise(between, [len(own.rates) for own in pair], RESAMPLES, rng)
    rows = [[math.log(took) for took in row] for own in pair for row in own.repeats.values()]
    within = seed_spread(rows)
    return repeat_noise(within, map(len, rows), RESAMPLES, rng) if within.freedom else None


def _by_task(predictions: Iterable[Predictions]) -> dict[tuple[str, str], list[Predictions]]:
    """What was kept, by language and task."""
    found: dict[tuple[str, str], list[Predictions]] = {}
    for one in predictions:
        found.setdefault((one.cell["language"], one.task), []).append(one)
    return found


def _model_of(one: Predictions) -> Model:
    return Model(*(one.cell[axis] for axis in _AXES))


def _timing(one: Predictions, batch: int) -> tuple[list[float], float] | None:
    """Decoding seconds of each repeat, and steps per second; None where they are not recorded."""
    import statistics

    timing: dict[str, Any] = one.details.get(f"batch_{batch}") or {}
    if not {"seconds", "seconds_reading_prompts", "steps"} <= set(timing):
        return None
    pairs = zip(timing["seconds"], timing["seconds_reading_prompts"], strict=True)
    repeats = [every - reading for every, reading in pairs]
    if not repeats or min(repeats) <= 0:
        return None
    return repeats, timing["steps"] / statistics.median(repeats)
