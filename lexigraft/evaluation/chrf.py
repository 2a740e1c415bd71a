"""chrF and chrF++: F-scores of character n-grams, for languages rich in word forms."""

from typing import TYPE_CHECKING, NamedTuple

from lexigraft.evaluation.pairs import check_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

_BETA = 2


class Chrf(NamedTuple):
    """chrF of a set of translations, on the scale 0 to 100.

    `corpus` pools the n-gram counts of all sentences; `sentences` are the scores one by one;
    `signature` is sacrebleu's, which names the variant and the version.
    """

    corpus: float
    sentences: list[float]
    signature: str


def chrf(predictions: "Sequence[str]", references: "Sequence[str]", word_order: int = 0) -> Chrf:
    """Score translations against one reference each: character order 6, beta 2.

    `word_order` 0 is chrF; 2 is chrF++, in which words and pairs of words count too (Popović 2017).

    An empty prediction scores 0. The published evaluation of Yamaguchi et al. averages the sentence
    scores; the corpus score is what other work reports, since it does not let a two-word sentence
    weigh as much as a long one.

    Raises
    ------
    ValueError
        There is nothing to score, or the lengths differ.
    """
    from sacrebleu.metrics.chrf import CHRF

    check_pairs(predictions, references)
    metric = CHRF(word_order=word_order, beta=_BETA)
    corpus = metric.corpus_score(list(predictions), [list(references)]).score
    signature = metric.get_signature().format()
    pairs = zip(predictions, references, strict=True)
    sentences = [metric.sentence_score(output, [reference]).score for output, reference in pairs]
    return Chrf(corpus, sentences, signature)


def chrf_statistics(
    predictions: "Sequence[str]", references: "Sequence[str]", word_order: int = 0
) -> list[list[int]]:
    """Sufficient statistics of each sentence: [sentences, 18], or [sentences, 24] of chrF++.

    Of each n-gram length: how many n-grams the prediction has, the reference, and both.
    """
    from sacrebleu.metrics.chrf import CHRF

    # sacrebleu's paired tests use this method too; its public scores hold no counts.
    metric = CHRF(word_order=word_order, beta=_BETA)
    return metric._extract_corpus_statistics(list(predictions), [list(references)])


def chrf_score(totals: "np.ndarray") -> "np.ndarray":
    """chrF or chrF++, 0 to 100, of summed statistics: [..., 18 or 24] -> [...].

    For a bootstrap, which needs thousands of scores at once. Precision and recall are averaged over
    the lengths that both texts have; recall weighs twice as much (Popović 2015, 2017).
    """
    import numpy as np

    ours, theirs, matches = np.moveaxis(totals.reshape(*totals.shape[:-1], -1, 3), -1, 0)
    usable = (ours > 0) & (theirs > 0)
    orders = np.maximum(usable.sum(axis=-1), 1)
    one = np.ones_like(ours)
    precision = (matches / np.where(usable, ours, one) * usable).sum(axis=-1) / orders
    recall = (matches / np.where(usable, theirs, one) * usable).sum(axis=-1) / orders
    below = _BETA**2 * precision + recall
    return 100 * (1 + _BETA**2) * precision * recall / np.where(below > 0, below, 1)
