"""Means, deviations and changes, against numbers worked out by hand."""

import math

import pandas
import pytest

from lexigraft.report.frame import CELL, select, summarize

SOURCE = ("m", "te", "source", "none", "none")
ALIGN = ("m", "te", "big", "align", "full")


def scores(*rows):
    """Rows `(cell, seed, run, value)` of one task and metric."""
    columns = [*CELL, "task", "kind", "metric", "seed", "run", "value"]
    return pandas.DataFrame(
        [(*cell, "mt", "translation", "chrf", seed, run, value) for cell, seed, run, value in rows],
        columns=columns,
    )


def aligned(*rows):
    """The one row of Align."""
    (found,) = select(summarize(scores(*rows)), initializer="align").to_dict("records")
    return found


def test_mean_and_sample_standard_deviation_are_over_seeds():
    found = summarize(scores((ALIGN, 0, 0, 10.0), (ALIGN, 1, 0, 12.0), (ALIGN, 2, 0, 17.0))).iloc[0]
    assert found["mean"] == 13.0
    assert found["std"] == pytest.approx(math.sqrt((9 + 1 + 16) / 2))
    assert (found["n_seeds"], found["over"]) == (3, "seeds")


def test_runs_of_one_seed_are_averaged_before_the_deviation():
    rows = [(ALIGN, 0, 0, 10.0), (ALIGN, 0, 1, 20.0), (ALIGN, 1, 0, 16.0), (ALIGN, 1, 1, 18.0)]
    found = summarize(scores(*rows)).iloc[0]
    assert found["mean"] == 16.0
    assert found["std"] == pytest.approx(math.sqrt(2))
    assert (found["n_seeds"], found["n_runs"]) == (2, 4)


def test_one_seed_with_several_runs_deviates_over_runs():
    found = summarize(scores((SOURCE, 0, 0, 3.0), (SOURCE, 0, 1, 5.0))).iloc[0]
    assert found["std"] == pytest.approx(math.sqrt(2))
    assert found["over"] == "runs"


def test_a_single_value_has_no_deviation():
    found = summarize(scores((SOURCE, 0, 0, 3.0))).iloc[0]
    assert math.isnan(found["std"])
    assert found["over"] == ""


def test_change_is_the_mean_less_the_source_models():
    rows = [(SOURCE, 0, 0, 4.0), (ALIGN, 0, 0, 5.0), (ALIGN, 1, 0, 7.0)]
    found = aligned(*rows)
    assert found["change"] == 2.0
    assert found["relative_change"] == 0.5


def test_an_increase_of_a_negative_score_is_positive():
    found = aligned((SOURCE, 0, 0, -0.5), (ALIGN, 0, 0, -0.25))
    assert found["relative_change"] == 0.5


def test_without_a_source_cell_there_is_no_change():
    assert math.isnan(summarize(scores((ALIGN, 0, 0, 5.0))).iloc[0]["change"])


def test_the_change_is_over_the_source_of_the_same_language():
    other = ("m", "el", *SOURCE[2:])
    rows = [(SOURCE, 0, 0, 4.0), (other, 0, 0, 40.0), (ALIGN, 0, 0, 5.0)]
    assert aligned(*rows)["change"] == 1.0
