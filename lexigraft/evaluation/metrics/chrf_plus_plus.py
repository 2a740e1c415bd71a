"""chrF++: chrF in which words and word pairs also count (Popović 2017)."""

from collections.abc import Sequence
from typing import Any

from lexigraft.evaluation.metric_kinds import MetricKind, Scorer, TextScores
from lexigraft.evaluation.metrics.chrf import NOISE, chrf, chrf_score, chrf_statistics

_WORD_ORDER = 2


def _scorer(settings: Any, language: str | None) -> Scorer:
    def score(outputs: Sequence[str], references: Sequence[str]) -> TextScores:
        scores = chrf(outputs, references, _WORD_ORDER)
        return TextScores(scores.score, scores.signature)

    return score


METRIC = MetricKind(
    "chrf_plus_plus",
    "chrF++",
    noise=NOISE,
    scorer=_scorer,
    statistics=lambda rows, details: chrf_statistics(
        [row["output"] for row in rows], [row["reference"] for row in rows], _WORD_ORDER
    ),
    total=chrf_score,
)
