"""Exact match and F1 of answers, by hand."""

import pytest

from lexigraft.evaluation.answers import squad_exact_match, squad_f1


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
    assert squad_exact_match(answer, references) == exact
    assert squad_f1(answer, references) == pytest.approx(score)
