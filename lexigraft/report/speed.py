"""Generation speed of models relative to their source model, and its paired tests."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from pandas import DataFrame

from lexigraft.randomness import generator
from lexigraft.report.frame import Column, Model, Predictions, StudyResults, select
from lexigraft.report.model_table import TableTests, stars_note, untested_note
from lexigraft.report.names import SAME_TEXT, parse_speed
from lexigraft.report.rendering import number
from lexigraft.report.significance import (
    RESAMPLES,
    PairedTest,
    Spread,
    column_scores,
    correct_together,
    mean_over_seeds,
    paired_test,
    pooled_spread,
    predictions_by_model,
    resampled_scores,
    seed_noise,
    spreads_of_pools,
)
from lexigraft.report.table import TableCell, mark_of, shade_of

SPEED_UP_NOTE = (
    "Speed-up: characters per second over Source on the same text, smallest batch measured unless "
    "another is named."
)


def speeds(study: StudyResults) -> DataFrame:
    """Rows of the summary that are speeds, with `unit`, `batch` and `speed_up` over Source.

    For each task and batch size: tokens, and characters on the same text (`same_text_characters`).
    """
    parsed = study.summary["metric"].map(parse_speed)
    rows = study.summary[parsed.notna()].copy()
    rows["unit"] = [unit for unit, _ in parsed.dropna()]
    rows["batch"] = [batch for _, batch in parsed.dropna()]
    rows["speed_up"] = rows["mean"] / rows["source_mean"]
    return rows[rows["unit"].isin(("tokens", SAME_TEXT))]


def speed_up_rows(study: StudyResults) -> DataFrame:
    """Rows of `speeds` with the speed-up of generated text over the source model."""
    rows = speeds(study)
    return rows[(rows["unit"] != "tokens") & rows["speed_up"].notna()]


def speed_ups(
    study: StudyResults, rows: DataFrame, model: Model
) -> dict[tuple[str, str], dict[str, Any]]:
    """`(language, kind of task)` -> the row of `speeds` with a model's characters per second.

    A speed task represents the kind of task whose prompts it continues. The batch size is the
    item's, otherwise the smallest.
    """
    rows = select(rows[rows["unit"] != "tokens"], **model.axes())
    if batch := study.item.option("batch_size"):
        rows = rows[rows["batch"] == batch]
    by_kind: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows.sort_values("batch", kind="stable").to_dict("records"):
        kind = study.prompts_from.get(row["task"], "translation")
        by_kind.setdefault((row["language"], kind), row)
    return by_kind


def speed_up_cell(row: dict[str, Any] | None, compact: bool = False) -> TableCell:
    """The speed-up of a row of the summary over Source."""
    if row is None or not row["source_mean"] > 0:
        return TableCell()
    ratio = row["mean"] / row["source_mean"]
    shade = shade_of(ratio - 1)
    deviation = row["std"] / row["source_mean"]
    return TableCell(
        f"{number(ratio, 2)}×",
        number(deviation, 2) if deviation == deviation else "",
        shade=shade,
        value=float(ratio),
        mark=mark_of(shade) if compact else "",
    )


def speed_tests(
    study: StudyResults, models: Sequence[Model], columns: Iterable[Column]
) -> TableTests:
    """Test the speed-ups of each model in a table, corrected for each other."""
    shown = tuple(dict.fromkeys(columns))
    tests = speed_up_tests(study, models, shown)
    known = sum(test.freedom > 0 for test in tests.values())
    notes = []
    if known:
        varied = (
            "; variation between measurements is estimated from the models of one vocabulary, "
            "which do the same work;"
        )
        notes.append(stars_note("the sentences of the text", known, "speed-ups", varied))
    if known < len(tests):
        which = f"{len(tests) - known} speed-ups" if known else "Speed-ups"
        notes.append(
            f"{which} not tested: each vocabulary was measured once, so the variation between "
            "measurements is unknown. The intervals in the CSV file cover other sentences and the "
            "repeats of one measurement only."
        )
    tested = {column for _, column in tests}
    untested = (column[1] for column in shown if column not in tested)
    needed = "the time of each repeat and the tokens of each sentence"
    notes += untested_note("Speed-ups", needed, untested)
    return TableTests(tests, ("speed_up", "measurement_freedom"), notes)


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
    predictions = predictions_by_model(study)
    tests: dict[tuple[Model, Column], PairedTest] = {}
    for column in dict.fromkeys(columns):
        unit, batch = parse_speed(column[2]) or ("", 0)
        if unit != SAME_TEXT:
            continue
        runs = predictions.get(column[:2], {})
        measured = {}
        for model in models:
            speed = _measurements(runs.get(model, ()), column[2], batch)
            if model.source in sources and speed.rates:
                measured[model] = speed
        scores = column_scores(study, column)
        scores = scores[scores["value"] > 0]
        # The deviation between measurements of the same work, of logarithms.
        logarithms = map(math.log, scores["value"])
        spreads = spreads_of_pools(
            zip(scores["source"], scores["vocabulary"], logarithms, strict=True)
        )
        resampled, single = _logarithms(measured, column, batch)
        for model in measured:
            source = sources[model.source]
            if model.is_source or source not in measured:
                continue
            spread = spreads[model.source]
            names = [name for one in (model, source) for name in one.axes().values()]
            rng = generator("report", "seeds", *column, *names)
            noise = _measurement_noise(spread, (measured[model], measured[source]), rng)
            if noise is None:
                continue
            sentences = [size for size, *_ in measured[source].text.values()]
            test = paired_test(
                resampled[model],
                resampled[source],
                (single[model], single[source]) if {*sentences} == {1} else None,
                noise,
                examples=sum(sentences),
                freedom=spread.freedom,
                inverse=math.exp,
            )
            tests[model, column] = test if spread.freedom else replace(test, p=math.nan)
    return correct_together(tests)


@dataclass(frozen=True)
class _Measured:
    """A model's text, and its measurements by seed and run: each is a separate process."""

    # Name of each sentence, or group of sentences -> sentences, characters and tokens.
    text: dict[str, tuple[int, int, int]]
    repeats: dict[tuple[int, int], list[float]] = field(default_factory=dict)  # decoding seconds
    rates: dict[tuple[int, int], float] = field(default_factory=dict)  # steps per second


def _measurements(runs: Sequence[Predictions], metric: str, batch: int) -> _Measured:
    """The measurements of runs that recorded the lengths of sentences and the times of repeats."""
    measured = _Measured({})
    for run in runs:
        timing: dict[str, Any] = run.details.get(f"batch_{batch}") or {}
        if not {"seconds", "seconds_reading_prompts", "steps"} <= set(timing):
            continue
        pairs = zip(timing["seconds"], timing["seconds_reading_prompts"], strict=True)
        repeats = [seconds - reading for seconds, reading in pairs]
        if not repeats or min(repeats) <= 0:
            continue
        for row in () if measured.text else run.rows():
            measured.text[row["id"]] = (row["sentences"], row["characters"], row["tokens"])
        rate = timing["steps"] / statistics.median(repeats)
        characters = sum(size for _, size, _ in measured.text.values())
        tokens = sum(size for *_, size in measured.text.values())
        # The tested number must be the one that a table shows.
        recorded = run.metrics.get(metric, math.nan)
        if math.isclose(rate * batch * characters / max(tokens, 1), recorded, rel_tol=1e-4):
            key = (run.cell["seed"], run.run)
            measured.repeats[key], measured.rates[key] = repeats, rate
    return measured


def _logarithms(measured: dict[Model, _Measured], column: Column, batch: int):
    """Logarithms of characters per second by model: for each resample, and for each sentence."""

    def per_token(totals: np.ndarray) -> np.ndarray:  # [..., 2] -> [...]
        return totals[..., 0] / np.maximum(totals[..., 1], 1)

    names = sorted({name for speed in measured.values() for name in speed.text})
    texts = {
        model: np.array([speed.text.get(name, (0, 0, 0))[1:] for name in names], dtype=np.float64)
        for model, speed in measured.items()
    }
    language, task, _ = column
    # The text is the same at every batch size.
    systems = {model: (text, per_token) for model, text in texts.items()}
    per_step = resampled_scores(systems, len(names), language, task, SAME_TEXT)
    resampled, single = {}, {}
    for model, speed in measured.items():
        rates = {key: batch * rate * per_step[model] for key, rate in speed.rates.items()}
        characters = mean_over_seeds(rates)
        resampled[model] = np.log(characters)
        steps = characters[0] / per_token(texts[model].sum(axis=0))
        with np.errstate(divide="ignore"):
            single[model] = np.log(steps * per_token(texts[model]))
    return resampled, single


def _measurement_noise(
    spread: Spread, pair: tuple[_Measured, _Measured], rng: np.random.Generator
) -> np.ndarray | None:
    """The effect of measuring both models again: [resamples]; None if it is unknown.

    If each was measured once, it is that of other repeats.
    """
    if spread.freedom:
        return seed_noise(spread, [len(speed.rates) for speed in pair], RESAMPLES, rng)
    rows = [[math.log(took) for took in row] for speed in pair for row in speed.repeats.values()]
    within = pooled_spread(rows)
    return repeat_noise(within, map(len, rows), RESAMPLES, rng) if within.freedom else None


def repeat_noise(
    spread: Spread, repeats: Iterable[int], resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """The effect of other repeats on a difference of two medians: [resamples].

    Like `seed_noise`; the median of three or more varies more than their mean, so it is simulated.
    `spread` is that of a single repeat, `repeats` are the numbers of repeats of the two medians.
    """
    if not spread.freedom or not spread.deviation:
        return np.zeros(resamples)
    # One deviation is estimated for both; its estimation error is also drawn.
    scale = spread.deviation * np.sqrt(spread.freedom / rng.chisquare(spread.freedom, resamples))
    first, second = (
        np.median(rng.standard_normal((resamples, count)), axis=1) for count in repeats
    )
    return scale * (first - second)
