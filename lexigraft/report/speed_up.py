"""How much faster than its source model a model writes, on other text and when measured again."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lexigraft.randomness import generator
from lexigraft.report.bootstrap import (
    Scores,
    Spread,
    mean_over_seeds,
    repeat_noise,
    seed_noise,
    seed_spread,
)
from lexigraft.report.metrics import speed_of
from lexigraft.report.models import Model
from lexigraft.report.paired_tests import (
    RESAMPLES,
    Column,
    PairedTest,
    column_scores,
    correct_together,
    paired_test,
    predictions_by_model,
    resampled_scores,
)
from lexigraft.report.study import Predictions, StudyResults

if TYPE_CHECKING:
    import numpy as np

SAME_TEXT = "same_text_characters"


@dataclass(frozen=True)
class _Measured:
    """A model's measurements, by seed and run: each is a process of its own.

    `characters` and `tokens` are of each sentence, or group of so many `sentences`, by its name;
    `repeats` the decoding seconds of each timed pass, `rates` the model's steps per second.
    """

    sentences: dict[str, int]
    characters: dict[str, int]
    tokens: dict[str, int]
    repeats: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    rates: dict[tuple[int, int], float] = field(default_factory=dict)


def speed_up_tests(
    study: StudyResults, models: Sequence[Model], columns: Iterable[Column]
) -> dict[tuple[Model, Column], PairedTest]:
    """Test the speed of each model over its source model's.

    Characters per second on the same text are those of the text over the steps that a vocabulary
    takes for it, times the steps per second that were measured. So there are two sources of chance.
    The text: its sentences are drawn with replacement, the same for both models. And the
    measurement: the effect of repeating it is drawn from Student's t, with the deviation between
    measurements. Models of one vocabulary do the same work, whatever their weights are, so how much
    their speeds differ is how much measurements do; it is pooled over the vocabularies of a source
    model. Where each was measured once, only the repeats of a measurement are known: they give an
    interval, but no p, for they are of one process in one minute.

    Ratios are compared by their logarithms. The effect size is of the logarithm of how much faster
    each sentence is written.

    Parameters
    ----------
    columns
        Of characters per second on the same text; others are not tested.
    """
    sources = {model.source: model for model in models if model.is_source}
    own = [model for model in models if model.source in sources]
    predictions = predictions_by_model(study)
    found: dict[tuple[Model, Column], PairedTest] = {}
    for column in dict.fromkeys(columns):
        parsed = speed_of(column[2])
        if parsed is None or parsed[0] != SAME_TEXT:
            continue
        measured = _measurements(predictions.get(column[:2], {}), own, column[2], parsed[1])
        spreads = _spreads(study, column)
        logarithms, alone = _scores(measured, column, parsed[1])
        for model in own:
            source = sources[model.source]
            if model.is_source or model not in measured or source not in measured:
                continue
            between, text = spreads[model.source], measured[source].sentences
            names = [name for one in (model, source) for name in one.keys().values()]
            rng = generator("report", "seeds", *column, *names)
            noise = _noise(between, (measured[model], measured[source]), rng)
            if noise is None:
                continue
            test = paired_test(
                logarithms[model],
                logarithms[source],
                (alone[model], alone[source]) if {*text.values()} == {1} else None,
                noise,
                examples=sum(text.values()),
                freedom=between.freedom,
                inverse=math.exp,
            )
            found[model, column] = test if between.freedom else replace(test, p=math.nan)
    return correct_together(found)


def _measurements(
    predictions: Mapping[Model, list[Predictions]], models: Sequence[Model], metric: str, batch: int
) -> dict[Model, _Measured]:
    """The measurements of each model that recorded the lengths of sentences."""
    found: dict[Model, _Measured] = {}
    for model, runs in predictions.items():
        for one in runs if model in models else ():
            timing = _timing(one, batch)
            if timing is None:
                continue
            if model not in found:
                rows = one.rows()
                found[model] = _Measured(*(
                    {row["id"]: row[unit] for row in rows}
                    for unit in ("sentences", "characters", "tokens")
                ))  # fmt: skip
            own = found[model]
            text = sum(own.characters.values()) / max(sum(own.tokens.values()), 1)
            recorded = one.metrics.get(metric, math.nan)
            repeats, rate = timing
            # The test must be of the number that a table shows.
            if math.isclose(rate * batch * text, recorded, rel_tol=1e-4):
                key = (one.cell["seed"], one.run)
                own.repeats[key], own.rates[key] = repeats, rate
    return {model: own for model, own in found.items() if own.rates}


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


def _scores(
    measured: Mapping[Model, _Measured], column: Column, batch: int
) -> tuple[dict[Model, Scores], dict[Model, Scores]]:
    """Logarithms of characters per second: in each resample, and of each sentence."""
    import numpy as np

    names = sorted({name for own in measured.values() for name in own.tokens})
    texts = {
        model: np.array([[own.characters.get(name, 0), own.tokens.get(name, 0)] for name in names],
                        dtype=np.float64)
        for model, own in measured.items()
    }  # fmt: skip
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


def _per_token(totals: "np.ndarray") -> "np.ndarray":
    """Characters per token: [..., 2] -> [...]."""
    import numpy as np

    return totals[..., 0] / np.maximum(totals[..., 1], 1)


def _spreads(study: StudyResults, column: Column) -> dict[str, Spread]:
    """How much measurements of the same work differ, as logarithms, by source model."""
    own = column_scores(study, column)
    own = own[own["value"] > 0]
    rates: dict[str, dict[str, list[float]]] = {}
    for source, vocabulary, rate in own[["source", "vocabulary", "value"]].itertuples(index=False):
        rates.setdefault(source, {}).setdefault(vocabulary, []).append(math.log(rate))
    return {source: seed_spread(similar.values()) for source, similar in rates.items()}


def _noise(
    between: Spread, pair: tuple[_Measured, _Measured], rng: "np.random.Generator"
) -> "np.ndarray | None":
    """The effect of measuring both models again; None where nothing is known of it."""
    if between.freedom:
        return seed_noise(between, [len(own.rates) for own in pair], RESAMPLES, rng)
    rows = [[math.log(took) for took in row] for own in pair for row in own.repeats.values()]
    within = seed_spread(rows)
    return repeat_noise(within, map(len, rows), RESAMPLES, rng) if within.freedom else None
