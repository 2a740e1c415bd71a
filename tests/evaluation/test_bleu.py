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


@pytest.mark.parametrize("language", ["th", "ja", "my", "km", "lo"])
def test_characters_are_tokens_of_languages_without_spaces(language):
    found = bleu(["abcdefgh"], ["abcdefgx"], language)
    # 7 of 8 characters, 6 of 7 pairs, 5 of 6, 4 of 5.
    assert found.score == pytest.approx(100 * (7 / 8 * 6 / 7 * 5 / 6 * 4 / 5) ** 0.25)
    assert "tok:char" in found.signature
    assert bleu(["abcdefgh"], ["abcdefgx"], "de").score < 1


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
