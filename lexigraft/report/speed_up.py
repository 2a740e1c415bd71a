"""Test how much faster a model generates text than its source model."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lexigraft.randomness import generator
from lexigraft.report.metrics import SAME_TEXT, speed_of
from lexigraft.report.models import Column, Model
from lexigraft.report.paired_tests import (
    RESAMPLES,
    PairedTest,
    Scores,
    Spread,
    column_scores,
    correct_together,
    mean_over_seeds,
    paired_test,
    pooled_spreads,
    predictions_by_model,
    repeat_noise,
    resampled_scores,
    seed_noise,
    seed_spread,
)
from lexigraft.report.study import Predictions, StudyResults


@dataclass(frozen=True)
class _Measured:
    """A model's text, and its measurements by seed and run: each is a separate process."""

    # Name of each sentence, or group of sentences -> sentences, characters and tokens.
    text: dict[str, tuple[int, int, int]]
    # Decoding seconds of each timed pass.
    repeats: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    rates: dict[tuple[int, int], float] = field(default_factory=dict)  # steps per second


def speed_up_tests(
    study: StudyResults, models: Sequence[Model], columns: Iterable[Column]
) -> dict[tuple[Model, Column], PairedTest]:
    """Test the speed of each model relative to its source model.

    Only columns of characters per second on the same text are tested. These are the characters of
    the text per step of a vocabulary, times the measured steps per second. So there are two sources
    of random variation. The first is the text: its sentences are drawn with replacement, the same
    for both models. The second is the measurement: the effect of repeating it is drawn from
    Student's t, with the deviation between measurements. Models with the same vocabulary do the
    same work, whatever their weights are, so differences between their speeds are differences
    between measurements; the deviation is pooled over the vocabularies of a source model. If each
    was measured only once, only the repeats within a measurement are known. They yield an interval
    but no p, since they come from one process within one minute.

    Ratios are compared by their logarithms. The effect size is that of the logarithm of the
    speed-up of each sentence.
    """
    sources = {model.source: model for model in models if model.is_source}
    own = [model for model in models if model.source in sources]
    predictions = predictions_by_model(study)
    found: dict[tuple[Model, Column], PairedTest] = {}
    for column in dict.fromkeys(columns):
        unit, batch = speed_of(column[2]) or ("", 0)
        if unit != SAME_TEXT:
            continue
        runs = predictions.get(column[:2], {})
        measured = {model: _measurements(runs.get(model, ()), column[2], batch) for model in own}
        measured = {model: one for model, one in measured.items() if one.rates}
        scores = column_scores(study, column)
        scores = scores[scores["value"] > 0]
        # The deviation between measurements of the same work, of logarithms.
        spreads = pooled_spreads(
            zip(scores["source"], scores["vocabulary"], map(math.log, scores["value"]), strict=True)
        )
        logarithms, alone = _scores(measured, column, batch)
        for model in own:
            source = sources[model.source]
            if model.is_source or model not in measured or source not in measured:
                continue
            between = spreads[model.source]
            sentences = [size for size, *_ in measured[source].text.values()]
            names = [name for one in (model, source) for name in one.keys().values()]
            rng = generator("report", "seeds", *column, *names)
            noise = _noise(between, (measured[model], measured[source]), rng)
            if noise is None:
                continue
            test = paired_test(
                logarithms[model],
                logarithms[source],
                (alone[model], alone[source]) if {*sentences} == {1} else None,
                noise,
                examples=sum(sentences),
                freedom=between.freedom,
                inverse=math.exp,
            )
            found[model, column] = test if between.freedom else replace(test, p=math.nan)
    return correct_together(found)


def _measurements(runs: Sequence[Predictions], metric: str, batch: int) -> _Measured:
    """The measurements of runs that recorded the lengths of sentences and the times of repeats."""
    found = _Measured({})
    for one in runs:
        timing: dict[str, Any] = one.details.get(f"batch_{batch}") or {}
        if not {"seconds", "seconds_reading_prompts", "steps"} <= set(timing):
            continue
        pairs = zip(timing["seconds"], timing["seconds_reading_prompts"], strict=True)
        repeats = [every - reading for every, reading in pairs]
        if not repeats or min(repeats) <= 0:
            continue
        for row in () if found.text else one.rows():
            found.text[row["id"]] = (row["sentences"], row["characters"], row["tokens"])
        rate = timing["steps"] / statistics.median(repeats)
        characters = sum(size for _, size, _ in found.text.values())
        tokens = sum(size for *_, size in found.text.values())
        # The tested number must be the one that a table shows.
        recorded = one.metrics.get(metric, math.nan)
        if math.isclose(rate * batch * characters / max(tokens, 1), recorded, rel_tol=1e-4):
            key = (one.cell["seed"], one.run)
            found.repeats[key], found.rates[key] = repeats, rate
    return found


def _scores(
    measured: Mapping[Model, _Measured], column: Column, batch: int
) -> tuple[dict[Model, Scores], dict[Model, Scores]]:
    """Logarithms of characters per second: for each resample, and for each sentence."""
    names = sorted({name for own in measured.values() for name in own.text})
    texts = {
        model: np.array([own.text.get(name, (0, 0, 0))[1:] for name in names], dtype=np.float64)
        for model, own in measured.items()
    }
    language, task, _ = column
    # The text is the same at every batch size.
    systems = {model: ({(0, 0): text}, _per_token) for model, text in texts.items()}
    per_step = resampled_scores(systems, len(names), language, task, SAME_TEXT)
    resampled: dict[Model, Scores] = {}
    alone: dict[Model, Scores] = {}
    for model, own in measured.items():
        speeds = mean_over_seeds(
            {key: batch * rate * per_step[model][0, 0] for key, rate in own.rates.items()}
        )
        resampled[model] = {(0, 0): np.log(speeds)}
        steps = speeds[0] / _per_token(texts[model].sum(axis=0))
        with np.errstate(divide="ignore"):
            alone[model] = {(0, 0): np.log(steps * _per_token(texts[model]))}
    return resampled, alone


def _per_token(totals: np.ndarray) -> np.ndarray:
    """Characters per token: [..., 2] -> [...]."""
    return totals[..., 0] / np.maximum(totals[..., 1], 1)


def _noise(
    between: Spread, pair: tuple[_Measured, _Measured], rng: np.random.Generator
) -> np.ndarray | None:
    """The effect of measuring both models again; None if it is unknown."""
    if between.freedom:
        return seed_noise(between, [len(own.rates) for own in pair], RESAMPLES, rng)
    rows = [[math.log(took) for took in row] for own in pair for row in own.repeats.values()]
    within = seed_spread(rows)
    return repeat_noise(within, map(len, rows), RESAMPLES, rng) if within.freedom else None
