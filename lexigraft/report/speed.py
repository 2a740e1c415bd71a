"""Generation speed of models relative to their source model, and its paired tests."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

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


def measured_speeds(study: StudyResults) -> DataFrame:
    """Rows of the summary that are speeds, with `unit`, `batch` and `speed_up` over Source.

    For each task and batch size: tokens, and characters on the same text (`same_text_characters`).
    """
    parsed = study.summary["metric"].map(parse_speed)
    rows = study.summary[parsed.notna()].copy()
    rows["unit"] = [unit for unit, _ in parsed.dropna()]
    rows["batch"] = [batch for _, batch in parsed.dropna()]
    rows["speed_up"] = rows["mean"] / rows["source_mean"]
    return rows[rows["unit"].isin(("tokens", SAME_TEXT))]


def same_text_speeds(study: StudyResults) -> DataFrame:
    """Rows of `measured_speeds` with the speed-up of generated text over the source model."""
    rows = measured_speeds(study)
    return rows[(rows["unit"] != "tokens") & rows["speed_up"].notna()]


def speed_by_task_kind(
    study: StudyResults, speeds: DataFrame, model: Model
) -> dict[tuple[str, str], dict[str, Any]]:
    """`(language, kind of task)` -> the row of `speeds` with a model's characters per second.

    `speeds` are those of `measured_speeds`. A speed task represents the kind of task whose prompts
    it continues. The batch size is the item's, otherwise the smallest.
    """
    rows = select(speeds[speeds["unit"] != "tokens"], **model.axes())
    if batch := study.item.option("batch_size"):
        rows = rows[rows["batch"] == batch]
    rows_by_kind: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows.sort_values("batch", kind="stable").to_dict("records"):
        task_kind = study.prompts_from.get(row["task"], "translation")
        rows_by_kind.setdefault((row["language"], task_kind), row)
    return rows_by_kind


def speed_up_cell(row: dict[str, Any] | None, compact: bool = False) -> TableCell:
    """The speed-up of a row of the summary over Source."""
    if row is None or not row["source_mean"] > 0:
        return TableCell()
    ratio = row["mean"] / row["source_mean"]
    shade = shade_of(ratio - 1)
    deviation = row["std"] / row["source_mean"]
    return TableCell(
        f"{number(ratio, 2)}×",
        "" if math.isnan(deviation) else number(deviation, 2),
        shade=shade,
        value=float(ratio),
        mark=mark_of(shade) if compact else "",
    )


def speed_ups_over_source(
    study: StudyResults, models: Sequence[Model], columns: Iterable[Column]
) -> TableTests:
    """Test the speed-ups of each model in a table, corrected for each other."""
    table_columns = tuple(dict.fromkeys(columns))
    tests = _paired_tests(study, models, table_columns)
    # Without a known variation between measurements, a test has an interval but no p.
    with_p = sum(test.freedom > 0 for test in tests.values())
    notes = []
    if with_p:
        variation = (
            "; variation between measurements is estimated from the models of one vocabulary, "
            "which do the same work;"
        )
        notes.append(stars_note("the sentences of the text", with_p, "speed-ups", variation))
    if with_p < len(tests):
        without_p = f"{len(tests) - with_p} speed-ups" if with_p else "Speed-ups"
        notes.append(
            f"{without_p} not tested: each vocabulary was measured once, so the variation between "
            "measurements is unknown. The intervals in the CSV file cover other sentences and the "
            "repeats of one measurement only."
        )
    tested_columns = {column for _, column in tests}
    untested_tasks = (column[1] for column in table_columns if column not in tested_columns)
    needed = "the time of each repeat and the tokens of each sentence"
    notes += untested_note("Speed-ups", needed, untested_tasks)
    return TableTests(tests, ("speed_up", "measurement_freedom"), notes)


def _paired_tests(
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
        measurements: dict[Model, _Measurements] = {}
        for model in models:
            of_model = _measurements_of(runs.get(model, ()), column[2], batch)
            if model.source in sources and of_model.rates:
                measurements[model] = of_model
        scores = column_scores(study, column)
        scores = scores[scores["value"] > 0]
        # The deviation between measurements of the same work, of logarithms.
        logarithms = map(math.log, scores["value"])
        spreads = spreads_of_pools(
            zip(scores["source"], scores["vocabulary"], logarithms, strict=True)
        )
        resampled, single = _logarithms(measurements, column, batch)
        for model in measurements:
            source = sources[model.source]
            if model.is_source or source not in measurements:
                continue
            spread = spreads[model.source]
            axes = (*model.axes().values(), *source.axes().values())
            rng = generator("report", "seeds", *column, *axes)
            noise = _measurement_noise(spread, measurements[model], measurements[source], rng)
            if noise is None:
                continue
            group_sizes = [size.sentences for size in measurements[source].text.values()]
            is_of_single_sentences = set(group_sizes) == {1}
            test = paired_test(
                resampled[model],
                resampled[source],
                (single[model], single[source]) if is_of_single_sentences else None,
                noise,
                examples=sum(group_sizes),
                freedom=spread.freedom,
                inverse=math.exp,
            )
            tests[model, column] = test if spread.freedom else replace(test, p=math.nan)
    return correct_together(tests)


class _TextSize(NamedTuple):
    """The size of a sentence, or of a group of sentences."""

    sentences: int
    characters: int
    tokens: int


@dataclass(frozen=True)
class _Measurements:
    """A model's text, and its measurements by seed and run: each is a separate process."""

    text: dict[str, _TextSize]  # by name of the sentence or group
    repeats: dict[tuple[int, int], list[float]] = field(default_factory=dict)  # decoding seconds
    rates: dict[tuple[int, int], float] = field(default_factory=dict)  # steps per second


def _measurements_of(runs: Sequence[Predictions], metric: str, batch: int) -> _Measurements:
    """The measurements of runs that recorded the lengths of sentences and the times of repeats."""
    measurements = _Measurements({})
    text = measurements.text
    for run in runs:
        timing: dict[str, Any] = run.details.get(f"batch_{batch}") or {}
        if not {"seconds", "seconds_reading_prompts", "steps"} <= set(timing):
            continue
        pairs = zip(timing["seconds"], timing["seconds_reading_prompts"], strict=True)
        repeats = [seconds - reading for seconds, reading in pairs]
        if not repeats or min(repeats) <= 0:
            continue
        if not text:
            for row in run.rows():
                text[row["id"]] = _TextSize(row["sentences"], row["characters"], row["tokens"])
        rate = timing["steps"] / statistics.median(repeats)
        characters = sum(size.characters for size in text.values())
        tokens = sum(size.tokens for size in text.values())
        # The tested number must be the one that a table shows.
        recorded = run.metrics.get(metric, math.nan)
        if math.isclose(rate * batch * characters / max(tokens, 1), recorded, rel_tol=1e-4):
            key = (run.cell["seed"], run.run)
            measurements.repeats[key], measurements.rates[key] = repeats, rate
    return measurements


def _logarithms(
    measurements: Mapping[Model, _Measurements], column: Column, batch: int
) -> tuple[dict[Model, np.ndarray], dict[Model, np.ndarray]]:
    """Logarithms of characters per second: [1 + resamples], and of each sentence: [sentences]."""

    def characters_per_token(totals: np.ndarray) -> np.ndarray:  # [..., 2] -> [...]
        return totals[..., 0] / np.maximum(totals[..., 1], 1)

    names = sorted({name for of_model in measurements.values() for name in of_model.text})
    nothing = _TextSize(0, 0, 0)
    texts: dict[Model, np.ndarray] = {}  # [sentences, 2]: characters and tokens
    for model, of_model in measurements.items():
        sizes = [of_model.text.get(name, nothing) for name in names]
        texts[model] = np.array([(size.characters, size.tokens) for size in sizes], np.float64)
    language, task, _ = column
    # The text is the same at every batch size.
    systems = {model: (text, characters_per_token) for model, text in texts.items()}
    per_step = resampled_scores(systems, len(names), language, task, SAME_TEXT)
    resampled, single = {}, {}
    for model, of_model in measurements.items():
        characters_per_second = mean_over_seeds(
            {key: batch * rate * per_step[model] for key, rate in of_model.rates.items()}
        )
        resampled[model] = np.log(characters_per_second)
        steps = characters_per_second[0] / characters_per_token(texts[model].sum(axis=0))
        with np.errstate(divide="ignore"):
            single[model] = np.log(steps * characters_per_token(texts[model]))
    return resampled, single


def _measurement_noise(
    spread: Spread, first: _Measurements, second: _Measurements, rng: np.random.Generator
) -> np.ndarray | None:
    """The effect of measuring both models again: [resamples]; None if it is unknown.

    If each was measured once, it is that of other repeats.
    """
    if spread.freedom:
        return seed_noise(spread, (len(first.rates), len(second.rates)), RESAMPLES, rng)
    repeats = [*first.repeats.values(), *second.repeats.values()]
    within = pooled_spread([[math.log(seconds) for seconds in process] for process in repeats])
    return repeat_noise(within, map(len, repeats), RESAMPLES, rng) if within.freedom else None


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
