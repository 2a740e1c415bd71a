"""One list of languages without spaces between words, for all that cut texts."""

import pytest

from lexigraft.evaluation.answers import mlqa_words
from lexigraft.evaluation.metrics.bleu import bleu
from lexigraft.evaluation.metrics.chrf import chrf
from lexigraft.evaluation.metrics.rouge_l import ScriptTokenizer, rouge_l
from lexigraft.evaluation.unspaced_scripts import UNSPACED_LANGUAGES

TEXTS = {
    "bo": "བོད", "ja": "日本かな", "km": "ខ្មែរ", "lo": "ລາວ", "my": "မြန်မာ", "th": "ไทย",
    "zh": "中文",
}  # fmt: skip


@pytest.mark.parametrize("language", UNSPACED_LANGUAGES)
def test_letters_with_their_marks_are_tokens_in_unspaced_scripts(language):
    words = mlqa_words(TEXTS[language], language)
    assert len(words) > 1
    assert "".join(words) == TEXTS[language]
    assert ScriptTokenizer().tokenize(TEXTS[language]) == words


@pytest.mark.parametrize("language", [*UNSPACED_LANGUAGES, "el", None])
def test_bleu_names_the_tokenizer_that_fits(language):
    text = TEXTS.get(language, "ένα δύο τρία")
    expected = {"zh": "tok:zh", "el": "tok:13a", None: "tok:13a"}.get(language, "tok:char")
    assert expected in bleu([text], [text], language).signature


@pytest.mark.parametrize(("outputs", "references"), [([], []), (["a"], []), (["a"], ["a", "b"])])
@pytest.mark.parametrize(
    "score",
    [chrf, lambda *texts: bleu(*texts, None), lambda *texts: rouge_l(*texts, ScriptTokenizer())],
)
def test_each_metric_requires_one_reference_for_each_output(score, outputs, references):
    with pytest.raises(ValueError, match=f"{len(outputs)} predictions for {len(references)}"):
        score(outputs, references)
