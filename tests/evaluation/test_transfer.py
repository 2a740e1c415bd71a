"""What metrics are called: of one language, of a group's, of English."""

import pytest

from lexigraft.evaluation.task_kinds import metrics_by_language, of_adapted_languages


def test_a_language_has_the_metric_s_own_name_and_english_a_prefix():
    scores = {"hi-mine": {"f1": 20.0}, "english": {"f1": 80.0}}
    assert metrics_by_language(scores) == {"f1": 20.0, "english_f1": 80.0}


def test_a_group_has_the_mean_of_its_languages_and_each_of_them():
    scores = {"hi": {"f1": 20.0}, "english": {"f1": 80.0}, "ta": {"f1": 30.0}}
    expected = {"f1": 25.0, "f1_hi": 20.0, "f1_ta": 30.0, "english_f1": 80.0}
    assert metrics_by_language(scores) == pytest.approx(expected)


def test_english_alone_is_what_a_cell_is_adapted_for():
    assert metrics_by_language({"english": {"f1": 80.0, "exact_match": 70.0}}) == {
        "f1": 80.0,
        "exact_match": 70.0,
    }
    assert of_adapted_languages({"english": 1}) == {"english": 1}
    assert of_adapted_languages({"english": 1, "te": 2}) == {"te": 2}
