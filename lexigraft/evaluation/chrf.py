"""chrF: F-score of character n-grams, the translation metric for languages rich in word forms."""

from typing import TYPE_CHECKING, NamedTuple

from lexigraft.evaluation.pairs import check_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence


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

    An empty prediction scores 0. The published evaluation of paper 000 averages the sentence
    scores; the corpus score is what other work reports, since it does not let a two-word sentence
    weigh as much as a long one.

    Raises
    ------
    ValueError
        There is nothing to score, or the lengths differ.
    """
    from sacrebleu.metrics.chrf import CHRF

    check_pairs(predictions, references)
    metric = CHRF(word_order=word_order)
    corpus = metric.corpus_score(list(predictions), [list(references)]).score
    signature = metric.get_signature().format()
    pairs = zip(predictions, references, strict=True)
    sentences = [metric.sentence_score(output, [reference]).score for output, reference in pairs]
    return Chrf(corpus, sentences, signature)
