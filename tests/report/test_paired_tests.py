"""Results of paired tests: their correction, their stars, and their columns."""

import math

import numpy as np
import pytest

from lexigraft.report.significance import (
    RESAMPLES,
    PairedTest,
    correct_together,
    paired_test,
    resampled_scores,
)
from lexigraft.report.tables.significance import effect_text, p_text


def result(p, **others):
    return PairedTest(value=1.0, low=0.5, high=1.5, p=p, effect=0.4, examples=9, **others)


def test_tests_are_corrected_for_each_other_and_one_without_a_p_for_none():
    found = correct_together({"a": result(0.01), "b": result(math.nan), "c": result(0.04)})
    assert [*found] == ["a", "b", "c"]
    assert (found["a"].corrected, found["c"].corrected) == pytest.approx((0.02, 0.04))
    assert math.isnan(found["b"].corrected)


@pytest.mark.parametrize(
    ("corrected", "stars"), [(0.009, "**"), (0.04, "*"), (0.05, ""), (math.nan, "")]
)
def test_stars_are_of_the_corrected_p(corrected, stars):
    assert result(0.001, corrected=corrected).stars == stars


def test_columns_are_named_after_what_was_tested():
    found = result(0.01, freedom=3).columns("change", "seed_freedom")
    assert (found["change_low"], found["change_high"], found["seed_freedom"]) == (0.5, 1.5, 3)
    assert "seed_freedom" not in result(0.01).columns("change")


def test_the_same_names_draw_the_same_examples_for_any_systems():
    texts = {name: np.arange(5.0)[:, None] + offset for offset, name in enumerate("ab")}
    systems = {name: (text, lambda totals: totals[..., 0]) for name, text in texts.items()}
    both = resampled_scores(systems, 5, "te", "length")
    alone = resampled_scores({"b": systems["b"]}, 5, "te", "length")
    assert both["b"].tolist() == alone["b"].tolist()
    assert len(both["a"]) == 1 + RESAMPLES
    # Five examples are drawn, each of which has one more in the second system.
    assert set(both["b"] - both["a"]) == {5.0}
    assert resampled_scores({}, 0, "te", "length") == {}


def test_a_ratio_is_tested_by_its_logarithm():
    first, second = np.log([4.0, 4.0, 8.0]), np.log([2.0, 2.0, 2.0])
    found = paired_test(first, second, None, examples=2, inverse=math.exp)
    assert found.value == pytest.approx(2)
    assert found.low < 2.1 and found.high == pytest.approx(4, rel=0.1)
    assert math.isnan(found.effect) and math.isnan(found.corrected)


def test_texts_of_p_and_effect():
    assert [p_text(p) for p in (0.0004, 0.012, 0.349)] == ["p < 0.001", "p = 0.012", "p = 0.35"]
    assert effect_text(0.4) == "d = +0.40"
