"""Paired tests of what a report compares: interval, p, effect size, and correction for many.

Score differences, speed-ups and changes of length are tested alike: the same examples are drawn for
both sides (`bootstrap`), and all that are tested together are corrected for each other.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from lexigraft.randomness import generator
from lexigraft.report.bootstrap import (
    Score,
    Scores,
    Spread,
    System,
    benjamini_hochberg,
    compare,
    effect_size,
    resampled_counts,
    run_scores,
    seed_spread,
)
from lexigraft.report.models import AXES, COLUMN, Column, Model
from lexigraft.report.study import Predictions, StudyResults
from lexigraft.report.summarize import Frame, select
from lexigraft.report.table import MISSING, number

RESAMPLES = 5000  # so that one difference among two hundred can stand out after the correction

LEVEL = 0.05  # a difference with a corrected p below it is significant

Key = TypeVar("Key", bound=Hashable)
Test = TypeVar("Test", bound="PairedTest")


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """A difference or a ratio, and whether it would hold on other examples."""

    value: float  # the difference or ratio
    low: float  # ends of its 95 % interval
    high: float
    p: float  # two-sided, of no difference; missing where nothing says how far chance reaches
    effect: float  # Cohen's d over examples (`effect_size`); missing of groups of examples
    examples: int  # that both sides were given
    freedom: int = 0  # of the spread over seeds or measurements; 0 where it is not known
    corrected: float = math.nan  # `p`, corrected for everything that was tested together

    @property
    def stars(self) -> str:
        """`*` where the corrected p is below 0.05, `**` where it is below 0.01."""
        return "**" if self.corrected < 0.01 else "*" if self.corrected < LEVEL else ""

    def columns(self, quantity: str, freedom: str = "") -> dict[str, float | int]:
        """Columns of a CSV file beside that of the `quantity`, with the name of the `freedom`."""
        return {
            f"{quantity}_low": self.low,
            f"{quantity}_high": self.high,
            "p": self.p,
            "p_corrected": self.corrected,
            "effect_size": self.effect,
            "tested_examples": self.examples,
            **({freedom: self.freedom} if freedom else {}),
        }


def resampled_scores(
    systems: Mapping[Key, tuple[System, Score]], examples: int, *names: str
) -> dict[Key, dict[tuple[int, int], np.ndarray]]:
    """Scores of each system on all examples, then in each resample.

    All systems are scored on the same resamples. Which examples these draw depends on `names`
    alone: the same study gives the same numbers.
    """
    parts: dict[Key, list[Scores]] = {key: [] for key in systems}
    rng = generator("report", "bootstrap", *names)
    for counts in resampled_counts(examples, RESAMPLES, rng) if systems else ():
        for key, (system, score) in systems.items():
            parts[key].append(run_scores(system, counts, score))
    return {
        key: {run: np.concatenate([part[run] for part in own]) for run in own[0]}
        for key, own in parts.items()
    }


def paired_test(
    first: Scores,
    second: Scores,
    alone: tuple[Scores, Scores] | None,
    noise: np.ndarray | float = 0.0,
    *,
    examples: int,
    freedom: int = 0,
    inverse: Callable[[float], float] = float,
) -> PairedTest:
    """Test the difference of two scores on the same resamples; not corrected yet.

    Parameters
    ----------
    alone
        The scores of single examples on both sides; None where only groups of them are known.
    noise
        See `bootstrap.compare`.
    inverse
        What undoes the transformation of scores, such as `math.exp` of logarithms.
    """
    found = compare(first, second, noise)
    return PairedTest(
        value=inverse(found.value),
        low=inverse(found.low),
        high=inverse(found.high),
        p=found.p,
        effect=effect_size(*alone) if alone else math.nan,
        examples=examples,
        freedom=freedom,
    )


def correct_together(tests: Mapping[Key, Test]) -> dict[Key, Test]:
    """The same tests, corrected for each other; those without a p stay without one."""
    known = {key: one.p for key, one in tests.items() if not math.isnan(one.p)}
    corrected = dict(zip(known, benjamini_hochberg([*known.values()]), strict=True))
    return {key: replace(one, corrected=corrected.get(key, math.nan)) for key, one in tests.items()}


def pooled_spreads(scores: Iterable[tuple[Key, object, float]]) -> dict[Key, Spread]:
    """The spread of each pool (`bootstrap.seed_spread`), from scores with their pool and model."""
    pools: dict[Key, dict[object, list[float]]] = {}
    for pool, model, score in scores:
        pools.setdefault(pool, {}).setdefault(model, []).append(score)
    return {pool: seed_spread(models.values()) for pool, models in pools.items()}


def predictions_by_model(
    study: StudyResults,
) -> dict[tuple[str, str], dict[Model, list[Predictions]]]:
    """`(language, task)` -> the predictions of each model, of all seeds and runs."""
    found: dict[tuple[str, str], dict[Model, list[Predictions]]] = {}
    for one in study.predictions:
        model = Model(*(one.cell[axis] for axis in AXES))
        own = found.setdefault((one.cell["language"], one.task), {})
        own.setdefault(model, []).append(one)
    return found


def column_scores(study: StudyResults, column: Column) -> Frame:
    """The scores of a column in the whole study, whatever part of it is shown."""
    return select((study.whole or study).scores, **dict(zip(COLUMN, column, strict=True)))


def p_text(p: float) -> str:
    """`p = 0.012`, or `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def effect_text(one: PairedTest) -> str:
    """`d = +0.42`; `–` where all examples differ by the same."""
    return f"d = {number(one.effect, 2, sign=True) if math.isfinite(one.effect) else MISSING}"
