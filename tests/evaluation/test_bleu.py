import math

import numpy as np
import pytest
import sacrebleu

from lexigraft.evaluation.metrics.bleu import bleu, bleu_score, bleu_statistics
from tests.evaluation.conftest import drawn_pairs

OUTPUTS = ["the cat sat on the mat", "a dog , barks loudly at night"]
REFERENCES = ["the cat sat on a mat", "a dog barks loudly at night."]


def test_the_score_is_that_of_sacrebleu():
    found = bleu(OUTPUTS, REFERENCES, "sw")
    assert found.score == sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES]).score
    assert "tok:13a" in found.signature
    assert bleu(OUTPUTS, REFERENCES, None) == found


def test_a_short_output_has_a_brevity_penalty():
    # All n-grams are right; five words for six.
    assert bleu(["a b c d e"], ["a b c d e f"], "de").score == pytest.approx(
        100 * math.exp(1 - 6 / 5)
    )


@pytest.mark.parametrize("language", ["th", "ja", "my", "km", "lo"])
def test_characters_are_tokens_of_languages_without_spaces(language):
    found = bleu(["abcdefgh"], ["abcdefgx"], language)
    # 7 of 8 characters, 6 of 7 pairs, 5 of 6, 4 of 5.
    assert found.score == pytest.approx(100 * (7 / 8 * 6 / 7 * 5 / 6 * 4 / 5) ** 0.25)
    assert "tok:char" in found.signature
    assert bleu(["abcdefgh"], ["abcdefgx"], "de").score < 1


def test_chinese_has_a_tokenizer_of_its_own():
    found = bleu(["我爱NBA比赛 2008"], ["我爱NBA比赛 2008"], "zh")
    assert found.score == pytest.approx(100)
    assert "tok:zh" in found.signature


@pytest.mark.parametrize("language", ["de", "th", "zh"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.95])
def test_the_score_of_summed_statistics_is_that_of_sacrebleu(language, share):
    outputs, references = drawn_pairs(5, share=share)
    whole = bleu(outputs, references, language)
    rows = np.array(bleu_statistics(outputs, references, whole.signature))
    assert bleu_score(rows.sum(0)) == pytest.approx(whole.score)
    # Few sentences, so that longer n-grams have no match, or there are none of them at all.
    for begin in range(0, len(outputs), 3):
        some = slice(begin, begin + 3)
        expected = bleu(outputs[some], references[some], language).score
        assert bleu_score(rows[some].sum(0)) == pytest.approx(expected)


def test_scores_of_many_sums_at_once_are_those_of_each():
    outputs, references = drawn_pairs(7, 12)
    rows = np.array(bleu_statistics(outputs, references, bleu(outputs, references, "de").signature))
    counts = np.random.default_rng(0).integers(0, 3, size=(20, 12))
    expected = [float(bleu_score(own @ rows)) for own in counts]
    assert bleu_score(counts @ rows) == pytest.approx(expected)
