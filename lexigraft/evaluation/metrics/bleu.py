"""BLEU by sacrebleu, with a tokenizer that suits the script (Papineni et al. 2002)."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from lexigraft.evaluation.metric_kinds import MetricKind, TextScores, check_pairs, texts_of
from lexigraft.evaluation.unspaced_scripts import UNSPACED_LANGUAGES

_ORDER = 4  # n-grams of tokens up to this length


def bleu(predictions: Sequence[str], references: Sequence[str], language: str | None) -> TextScores:
    """Score translations into a language, an ISO 639 code, by BLEU, 0 to 100.

    Tokenized with sacrebleu's `13a`, the field's default, also for `None`; Chinese with its `zh`;
    other languages written without spaces, where words would be whole clauses, with its `char`,
    which needs no dictionary. The `signature` names the tokenizer. Raises `ValueError`
    if there is nothing to score, or if the lengths differ.
    """
    from sacrebleu.metrics.bleu import BLEU

    check_pairs(predictions, references)
    tokenizer = "char" if language in UNSPACED_LANGUAGES else "13a"
    metric = BLEU(tokenize="zh" if language == "zh" else tokenizer)
    score = metric.corpus_score(list(predictions), [list(references)]).score
    return TextScores(score, metric.get_signature().format())


def bleu_statistics(
    predictions: Sequence[str], references: Sequence[str], signature: str
) -> list[list[int]]:
    """Sufficient statistics of each sentence: [sentences, 10].

    The numbers of tokens in the prediction and in the reference; then of n-grams of length 1 to 4
    in both, and in the prediction. The `signature` of the score names the tokenizer.
    """
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize=dict(part.split(":") for part in signature.split("|"))["tok"])
    scores = (
        metric.corpus_score([output], [[reference]])
        for output, reference in zip(predictions, references, strict=True)
    )
    return [[score.sys_len, score.ref_len, *score.counts, *score.totals] for score in scores]


def bleu_score(totals: Any) -> Any:
    """BLEU, 0 to 100, of arrays of summed statistics: [..., 10] -> [...].

    sacrebleu's formula, for the thousands of scores of a bootstrap at once. N-gram lengths without
    a match count as 1/2, 1/4, … matches (smoothing `exp`).
    """
    import numpy as np

    output, reference = totals[..., 0], totals[..., 1]  # numbers of tokens
    correct, predicted = totals[..., 2 : 2 + _ORDER], totals[..., 2 + _ORDER :]
    logarithms, halves = np.zeros(output.shape), np.ones(output.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        for length in range(_ORDER):
            matches, grams = correct[..., length], predicted[..., length]
            halves = np.where((matches == 0) & (grams > 0), 2 * halves, halves)
            logarithms += np.log(np.where(matches > 0, matches, 1 / halves) / grams)
        brevity = np.where(output < reference, np.exp(1 - reference / output), 1.0)
        score = 100 * brevity * np.exp(logarithms / _ORDER)
    # The score is 0 without any match, or if a length has no n-grams.
    counted = (correct > 0).any(axis=-1) & (predicted > 0).all(axis=-1)
    return np.where(counted, score, 0.0)


METRIC = MetricKind(
    "bleu",
    "BLEU",
    scorer=lambda settings, language: partial(bleu, language=language),
    statistics=lambda rows, details: bleu_statistics(*texts_of(rows), details["bleu_signature"]),
    total=bleu_score,
)
