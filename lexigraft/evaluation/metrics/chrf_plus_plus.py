"""chrF++: chrF in which words and word pairs also count (Popović 2017)."""

from collections.abc import Sequence

from lexigraft.evaluation.metric_kinds import MetricKind, TextScores, texts_of
from lexigraft.evaluation.metrics.chrf import NOISE, chrf, chrf_score, chrf_statistics

_WORD_ORDER = 2


def _score(outputs: Sequence[str], references: Sequence[str]) -> TextScores:
    return TextScores(*chrf(outputs, references, _WORD_ORDER)[:2])


METRIC = MetricKind(
    "chrf_plus_plus",
    "chrF++",
    noise=NOISE,
    scorer=lambda settings, language: _score,
    statistics=lambda rows, details: chrf_statistics(*texts_of(rows), _WORD_ORDER),
    total=chrf_score,
)
