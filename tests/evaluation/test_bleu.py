import math

import pytest
import sacrebleu

from lexigraft.evaluation.bleu import bleu

OUTPUTS = ["the cat sat on the mat", "a dog , barks loudly at night"]
REFERENCES = ["the cat sat on a mat", "a dog barks loudly at night."]


def test_it_is_sacrebleus_of_the_whole_set():
    found = bleu(OUTPUTS, REFERENCES, "sw")
    assert found.corpus == sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES]).score
    assert "tok:13a" in found.signature
    assert bleu(OUTPUTS, REFERENCES, None) == found


def test_one_word_too_few_costs_the_brevity_penalty():
    # All n-grams are right; five words for six.
    assert bleu(["a b c d e"], ["a b c d e f"], "de").corpus == pytest.approx(
        100 * math.exp(1 - 6 / 5)
    )


@pytest.mark.parametrize("language", ["th", "ja", "my", "km", "lo"])
def test_where_words_have_no_spaces_characters_count(language):
    found = bleu(["abcdefgh"], ["abcdefgx"], language)
    # 7 of 8 characters, 6 of 7 pairs, 5 of 6, 4 of 5.
    assert found.corpus == pytest.approx(100 * (7 / 8 * 6 / 7 * 5 / 6 * 4 / 5) ** 0.25)
    assert "tok:char" in found.signature
    assert bleu(["abcdefgh"], ["abcdefgx"], "de").corpus < 1


def test_chinese_has_a_tokenizer_of_its_own():
    found = bleu(["我爱NBA比赛 2008"], ["我爱NBA比赛 2008"], "zh")
    assert found.corpus == pytest.approx(100)
    assert "tok:zh" in found.signature


def test_nothing_to_score_is_refused():
    with pytest.raises(ValueError, match="0 predictions"):
        bleu([], [], "de")
