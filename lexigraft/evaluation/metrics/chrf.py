"""chrF, and chrF++, by sacrebleu: F-scores of character n-grams (Popović 2015, 2017)."""

from collections.abc import Sequence
from typing import Any

from lexigraft.evaluation.metric_kinds import MetricKind, TextScores, check_pairs, texts_of

_BETA = 2  # recall weighs twice as much as precision


def chrf(predictions: Sequence[str], references: Sequence[str], word_order: int = 0) -> TextScores:
    """Score translations by F-scores of character n-grams: character order 6, beta 2, 0 to 100.

    `word_order` 0 is chrF; 2 is chrF++, in which words and word pairs also count. `score` pools the
    n-gram counts of all sentences, `examples` are the scores of single sentences, and `companion`
    is their mean, which the published evaluation of Yamaguchi et al. reports. Raises `ValueError`
    if there is nothing to score, or if the lengths differ.
    """
    from sacrebleu.metrics.chrf import CHRF

    check_pairs(predictions, references)
    metric = CHRF(word_order=word_order, beta=_BETA)
    corpus = metric.corpus_score(list(predictions), [list(references)]).score
    pairs = zip(predictions, references, strict=True)
    sentences = [metric.sentence_score(output, [reference]).score for output, reference in pairs]
    signature = metric.get_signature().format()
    return TextScores(corpus, signature, sentences, sum(sentences) / len(sentences))


def chrf_statistics(
    predictions: Sequence[str], references: Sequence[str], word_order: int = 0
) -> list[list[int]]:
    """Sufficient statistics of each sentence: [sentences, 18], or [sentences, 24] for chrF++.

    For each n-gram length, the numbers of n-grams in the prediction, in the reference, and in both.
    """
    from sacrebleu.metrics.chrf import CHRF

    # sacrebleu's paired tests also use this method; its public scores hold no counts.
    metric = CHRF(word_order=word_order, beta=_BETA)
    return metric._extract_corpus_statistics(list(predictions), [list(references)])


def chrf_score(totals: Any) -> Any:
    """chrF or chrF++, 0 to 100, of arrays of summed statistics: [..., 18 or 24] -> [...].

    sacrebleu's formula, for the thousands of scores of a bootstrap at once: precision and recall
    are averaged over the lengths that both texts have.
    """
    import numpy as np

    output, reference, matches = np.moveaxis(totals.reshape(*totals.shape[:-1], -1, 3), -1, 0)
    usable = (output > 0) & (reference > 0)
    orders = np.maximum(usable.sum(axis=-1), 1)
    precision, recall = (
        (matches / np.where(usable, counts, 1) * usable).sum(axis=-1) / orders
        for counts in (output, reference)
    )
    below = _BETA**2 * precision + recall
    return 100 * (1 + _BETA**2) * precision * recall / np.where(below > 0, below, 1)


# Repetitions of a language's frequent syllables score up to about 10.
NOISE = 10.0
METRIC = MetricKind(
    "chrf",
    "chrF",
    noise=NOISE,
    scorer=lambda settings, language: chrf,
    companion=MetricKind("chrf_sentence_mean", "chrF, mean over sentences", noise=NOISE),
    companion_note="chrF is computed over all sentences, as sacrebleu does. The CSV file also has "
    "the mean of the chrF of each sentence (chrf_sentence_mean), which lighteval reports.",
    statistics=lambda rows, details: chrf_statistics(*texts_of(rows)),
    total=chrf_score,
)
