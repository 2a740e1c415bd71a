from unicodedata import normalize

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from lexigraft.errors import UserError
from lexigraft.evaluation.metrics.rouge_l import PieceTokenizer, ScriptTokenizer, rouge_l

BURMESE = "မြန်မာနိုင်ငံတွင် မိုးများ ရွာသွန်းခဲ့သည်။"
REAL = {
    "ar": "أعلنت الحكومة اليوم عن خطة جديدة للتعليم.",
    "de": "Die Regierung stellte heute neue Pläne für Schulen vor.",
    "el": "Η κυβέρνηση ανακοίνωσε σήμερα νέο σχέδιο για την παιδεία.",
    "hi": "सरकार ने आज शिक्षा के लिए नई योजना की घोषणा की।",
    "ja": "政府は本日、教育に関する新しい計画を発表した。",
    "my": BURMESE,
    "si": "රජය අද අධ්‍යාපනය සඳහා නව සැලැස්මක් ප්‍රකාශයට පත් කළේය.",
    "sw": "Serikali leo imetangaza mpango mpya wa elimu.",
    "te": "ప్రభుత్వం ఈరోజు విద్య కోసం కొత్త ప్రణాళికను ప్రకటించింది.",
    "th": "รัฐบาลประกาศแผนการศึกษาใหม่ในวันนี้",
}


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


@pytest.mark.parametrize("language", REAL)
def test_a_text_scores_100_against_itself_in_every_language(language):
    assert score(REAL[language], REAL[language]) == 100
    assert len(tokens(REAL[language])) > 5


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


@settings(deadline=None)
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


def test_a_tokenizer_that_cannot_be_loaded_is_named(tmp_path):
    with pytest.raises(UserError, match=r"rouge_tokenizer: '.*nothing' cannot be loaded"):
        PieceTokenizer(str(tmp_path / "nothing"))
