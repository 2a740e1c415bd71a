"""Exact match and F1 of answers: by hand, and by MLQA's own script."""

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lexigraft.evaluation.answers import mlqa_scores, mlqa_words, squad_scores


@pytest.mark.parametrize(
    ("answer", "references", "exact", "score"),
    [
        ("the Cat!", ["a cat"], 100, 100),
        ("black cat", ["cat"], 0, 100 * 2 / 3),  # precision 1/2, recall 1
        ("cat cat dog", ["cat dog dog"], 0, 100 * 2 / 3),  # two words in common of three and three
        ("cat", ["dog", "the cat"], 100, 100),
        ("cat", ["dog"], 0, 0),
        ("", ["cat"], 0, 0),
        ("the", ["a"], 100, 100),  # nothing is left of either
        ("दिल्ली।", ["दिल्ली"], 100, 100),
        ("«Лондон»", ["лондон"], 100, 100),
        ("$5", ["5"], 100, 100),
    ],
)
def test_answers_are_compared_word_by_word_without_articles_and_punctuation(
    answer, references, exact, score
):
    found = squad_scores(answer, references)
    assert found == {"f1": pytest.approx(score), "exact_match": exact}


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("en", "die Stadt", ["die", "stadt"]),  # articles of the language alone
        ("ar", "الكتاب", ["كتاب"]),
        ("ar", "سؤال الطالب", ["سؤ", "ط", "ب"]),  # in the midst of words as well
        ("ar", "ماذا؟", ["ماذا"]),
        ("sw", "mji wa Nairobi", ["mji", "wa", "nairobi"]),
        ("th", "กรุงเทพ 2020", ["ก", "รุ", "ง", "เ", "ท", "พ", "2020"]),
        ("my", "ရန်ကုန်", ["ရ", "န်", "ကု", "န်"]),
        ("ja", "東京タワー、1958年", ["東", "京", "タ", "ワ", "ー", "1958", "年"]),
        ("ko", "서울의 밤", ["서울의", "밤"]),
    ],
)
def test_each_language_has_its_words(language, text, words):
    assert mlqa_words(text, language) == words


@pytest.fixture(scope="module")
def harness():
    """MLQA's script as lm-evaluation-harness has it, which mended its Arabic rule alone."""
    [folder] = find_spec("lm_eval").submodule_search_locations
    spec = spec_from_file_location("mlqa", Path(folder) / "tasks" / "mlqa" / "utils.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WORDS = st.sampled_from(
    ["the", "a", "An", "der", "Einer", "las", "El", "của", "cái", "là", "Rhein,", "(2008)",
     "年北京", "奥运,会", "。", "–", "a-the", "l'eau", "दिल्ली।", "«", "$", "NBA总", "the—a", "²",
     "e\u0301in"]
)  # fmt: skip
ANSWERS = st.lists(WORDS, max_size=6).flatmap(
    lambda words: st.sampled_from([" ".join(words), "".join(words), "\t".join(words)])
)


@settings(max_examples=300)
@given(ANSWERS, st.lists(ANSWERS, min_size=1, max_size=3))
def test_scores_are_those_of_the_published_script(harness, answer, references):
    for language in ("en", "de", "es", "vi", "hi", "zh"):
        words = harness.normalize_answer(answer, language).split()
        assert mlqa_words(answer, language) == words
        best = max(harness.f1_score(answer, one, language) for one in references)
        exact = any(harness.exact_match_score(answer, one, language) for one in references)
        found = mlqa_scores(answer, references, language)
        assert found == {"f1": pytest.approx(100 * best), "exact_match": 100 * exact}


@pytest.mark.parametrize(
    ("language", "answer", "references", "exact", "score"),
    [
        ("de", "die Stadt Köln", ["Stadt Köln"], 100, 100),
        ("en", "die Stadt Köln", ["Stadt Köln"], 0, 100 * 2 * 2 / 5),
        ("zh", "2008年北京奥运会", ["北京"], 0, 100 * 2 * 2 / (7 + 2)),
        ("en", "cat cat dog", ["cat dog dog"], 0, 100 * 2 * 2 / 6),  # as often as both have it
        ("en", "Nile River", ["the Amazon", "river Nile"], 0, 100),  # the best reference; any order
        ("en", "Amazon", ["Nile", "the Amazon."], 100, 100),
        ("en", "", ["Nile"], 0, 0),
        ("en", "the", ["a"], 100, 0),  # nothing is left: equal, but nothing in common
    ],
)
def test_answers_are_scored_by_hand(language, answer, references, exact, score):
    found = mlqa_scores(answer, references, language)
    assert found == {"f1": pytest.approx(score), "exact_match": exact}
