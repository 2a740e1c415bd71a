"""Metrics of generated text, held against sacrebleu and numbers by hand."""

from unicodedata import normalize

import numpy as np
import pytest
import regex
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from lexigraft.evaluation.answers import mlqa_words
from lexigraft.evaluation.metrics.bleu import bleu, bleu_score, bleu_statistics
from lexigraft.evaluation.metrics.chrf import chrf, chrf_score, chrf_statistics
from lexigraft.evaluation.metrics.rouge_l import PieceTokenizer, ScriptTokenizer, rouge_l
from lexigraft.evaluation.unspaced_scripts import UNSPACED_LANGUAGES
from tests.evaluation.conftest import drawn_pairs


def test_scores_of_corpus_and_sentences_are_those_of_sacrebleu():
    outputs, references = drawn_pairs(1)
    assert (
        bleu(outputs, references, "sw").score == sacrebleu.corpus_bleu(outputs, [references]).score
    )
    assert bleu(outputs, references, None) == bleu(outputs, references, "sw")
    scores = chrf(outputs, references)
    assert scores.score == sacrebleu.corpus_chrf(outputs, [references]).score
    assert scores.examples == [
        sacrebleu.sentence_chrf(output, [reference]).score
        for output, reference in zip(outputs, references, strict=True)
    ]


@pytest.mark.parametrize("language", ["th", "ja", "my", "km", "lo"])
def test_characters_are_tokens_of_languages_without_spaces(language):
    found = bleu(["abcdefgh"], ["abcdefgx"], language)
    # 7 of 8 characters, 6 of 7 pairs, 5 of 6, 4 of 5.
    assert found.score == pytest.approx(100 * (7 / 8 * 6 / 7 * 5 / 6 * 4 / 5) ** 0.25)
    assert "tok:char" in found.signature
    assert bleu(["abcdefgh"], ["abcdefgx"], "de").score < 1


@pytest.mark.parametrize("language", ["de", "th", "zh"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.95])
def test_bleu_of_summed_statistics_is_that_of_sacrebleu(language, share):
    outputs, references = drawn_pairs(5, share=share)
    whole = bleu(outputs, references, language)
    rows = np.array(bleu_statistics(outputs, references, whole.signature))
    assert bleu_score(rows.sum(0)) == pytest.approx(whole.score)
    # Few sentences, so that longer n-grams have no match, or there are none of them at all.
    for begin in range(0, len(outputs), 3):
        some = slice(begin, begin + 3)
        expected = bleu(outputs[some], references[some], language).score
        assert bleu_score(rows[some].sum(0)) == pytest.approx(expected)


def test_ab_for_abc_scores_what_it_does_by_hand():
    # Unigrams: 2 of 2 right, 2 of 3 found; bigrams: 1 of 1, 1 of 2. No trigram in the output.
    # Precision (1 + 1) / 2 = 1, recall (2/3 + 1/2) / 2 = 7/12, F with beta 2: 5PR / (4P + R).
    expected = 100 * 5 * (7 / 12) / (4 + 7 / 12)
    assert chrf(["ab"], ["abc"]).examples == [pytest.approx(expected)]


@pytest.mark.parametrize("word_order", [0, 2])
def test_chrf_of_summed_statistics_is_that_of_sacrebleu(word_order):
    outputs, references = drawn_pairs(3)
    rows = np.array(chrf_statistics(outputs, references, word_order))
    scores = chrf(outputs, references, word_order)
    assert chrf_score(rows.sum(0)) == pytest.approx(scores.score)
    assert chrf_score(rows) == pytest.approx(scores.examples)


def test_the_statistics_of_ab_for_abc_are_those_counted_by_hand():
    # Of each length: n-grams of "ab", of "abc", and of both; words: one each, which differ.
    (row,) = chrf_statistics(["ab"], ["abc"], 2)
    assert row == [2, 3, 2, 1, 2, 1, 0, 1, 0, *[0] * 9, 1, 1, 0, 0, 0, 0]


def tokens(text):
    return ScriptTokenizer().tokenize(text)


def score(prediction, reference):
    return rouge_l([prediction], [reference], ScriptTokenizer())[0]


def longest_common(one, other):
    """Length of the longest common subsequence, by trying every choice."""
    if not one or not other:
        return 0
    if one[0] == other[0]:
        return 1 + longest_common(one[1:], other[1:])
    return max(longest_common(one[1:], other), longest_common(one, other[1:]))


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        # 4 of 6 and 5 words in order: "the cat sat mat"; precision 4/5, recall 4/6.
        (
            "the cat sat mat today",
            "the cat sat on the mat",
            100 * 2 * (4 / 5) * (4 / 6) / (44 / 30),
        ),
        ("a b c d", "d c b a", 25),
        ("ένα τρία", "ΈΝΑ δύο τρία!", 100 * 2 * 1 * (2 / 3) / (5 / 3)),
        # Letters with their marks: က ခ ဂ against က ဂ; precision 2/3, recall 1.
        ("ကခဂ", "ကဂ", 80),
        ("東京は晴れ", "東京は雨", 100 * 2 * (3 / 5) * (3 / 4) / (27 / 20)),
        ("", "some words", 0),
        ("...", "some words", 0),
        ("other", "words", 0),
    ],
)
def test_worked_examples(prediction, reference, expected):
    assert score(prediction, reference) == pytest.approx(expected)


words = st.lists(st.sampled_from(["ένα", "δύο", "က", "ခ", "x"]), max_size=7)


@given(words, words)
def test_the_score_is_the_f_measure_of_the_longest_common_subsequence(prediction, reference):
    common = longest_common(prediction, reference)
    expected = 200 * common / (len(prediction) + len(reference)) if common else 0
    assert score(" ".join(prediction), " ".join(reference)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Guten Tag, Herr Müller-Lüdenscheidt!",
            ["guten", "tag", "herr", "müller", "lüdenscheidt"],
        ),
        ("Die STRASSE, die Straße", ["die", "strasse", "die", "strasse"]),
        ("మంచి పుస్తకం", ["మంచి", "పుస్తకం"]),
        ("क्षमा कीजिए।", ["क्षमा", "कीजिए"]),
        ("మైక్రో\u200cసాఫ్ట్", ["మైక్రోసాఫ్ట్"]),  # an invisible joiner splits no word
        ("မြန်မာ၂၀၂၄", ["မြ", "န်", "မာ", "၂၀၂၄"]),
        ("กินข้าว 12 ครั้ง", ["กิ", "น", "ข้", "า", "ว", "12", "ค", "รั้", "ง"]),
        ("Tokyoは東京タワー", ["tokyo", "は", "東", "京", "タ", "ワ", "ー"]),
        ("ﾀﾜｰ１２", ["タ", "ワ", "ー", "12"]),  # halfwidth letters, fullwidth digits
        ("café cafe\u0301", ["café", "café"]),
        ("— … !", []),
    ],
)
def test_tokens_are_words_or_letters_with_their_marks(text, expected):
    assert tokens(text) == expected


@given(st.text(st.characters(exclude_categories=["Cs", "Cf"]), max_size=30))
def test_no_letter_mark_or_digit_is_lost(text):
    plain = normalize("NFKC", normalize("NFKC", text).casefold())
    assert "".join(tokens(text)) == regex.sub(r"[^\p{L}\p{M}\p{N}]", "", plain)


def test_a_tokenizer_of_a_folder_gives_its_pieces(byte_tokenizer, tmp_path):
    byte_tokenizer(("a", "b")).save_pretrained(tmp_path)
    loaded = PieceTokenizer(str(tmp_path))
    assert loaded.tokenize("abc") == ["ab", "c"]
    assert loaded.name == f"pieces of {tmp_path}"
    # "ab c" and "ab d": one piece of two in common; as words, none of one.
    assert rouge_l(["abc"], ["abd"], loaded) == [50]
    assert score("abc", "abd") == 0


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


@pytest.mark.parametrize(("outputs", "references"), [([], []), (["a"], []), (["a"], ["a", "b"])])
@pytest.mark.parametrize(
    "score",
    [chrf, lambda *texts: bleu(*texts, None), lambda *texts: rouge_l(*texts, ScriptTokenizer())],
)
def test_each_metric_requires_one_reference_for_each_output(score, outputs, references):
    with pytest.raises(ValueError, match=f"{len(outputs)} predictions for {len(references)}"):
        score(outputs, references)
