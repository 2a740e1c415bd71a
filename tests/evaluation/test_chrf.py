import numpy as np
import pytest
import sacrebleu

from lexigraft.evaluation.metrics.chrf import chrf, chrf_score, chrf_statistics
from tests.evaluation.conftest import drawn_pairs

OUTPUTS = ["ένα δύο", "καλημέρα", ""]
REFERENCES = ["ένα δύο τρία", "καλησπέρα κόσμε", "ναι"]


def test_corpus_and_sentence_scores_are_those_of_sacrebleu():
    scores = chrf(OUTPUTS, REFERENCES)
    assert scores.score == sacrebleu.corpus_chrf(OUTPUTS, [REFERENCES]).score
    assert scores.examples == [
        sacrebleu.sentence_chrf(output, [reference]).score
        for output, reference in zip(OUTPUTS, REFERENCES, strict=True)
    ]


def test_ab_for_abc_scores_what_it_does_by_hand():
    # Unigrams: 2 of 2 right, 2 of 3 found; bigrams: 1 of 1, 1 of 2. No trigram in the output.
    # Precision (1 + 1) / 2 = 1, recall (2/3 + 1/2) / 2 = 7/12, F with beta 2: 5PR / (4P + R).
    expected = 100 * 5 * (7 / 12) / (4 + 7 / 12)
    assert chrf(["ab"], ["abc"]).examples == [pytest.approx(expected)]


@pytest.mark.parametrize("word_order", [0, 2])
def test_the_score_of_summed_statistics_is_that_of_sacrebleu(word_order):
    outputs, references = drawn_pairs(3)
    rows = np.array(chrf_statistics(outputs, references, word_order))
    scores = chrf(outputs, references, word_order)
    assert chrf_score(rows.sum(0)) == pytest.approx(scores.score)
    assert chrf_score(rows) == pytest.approx(scores.examples)


def test_the_statistics_of_ab_for_abc_are_those_counted_by_hand():
    # Of each length: n-grams of "ab", of "abc", and of both; words: one each, which differ.
    (row,) = chrf_statistics(["ab"], ["abc"], 2)
    assert row == [2, 3, 2, 1, 2, 1, 0, 1, 0, *[0] * 9, 1, 1, 0, 0, 0, 0]
