"""Means, deviations and changes, against numbers worked out by hand."""

import math

import pandas
import pytest

from lexigraft.report.frame import CELL, select, summarize


def aligned(*rows):
    """The one row of Align."""
    (found,) = select(summarize(scores(*rows)), initializer="align").to_dict("records")
    return found


SOURCE = ("m", "te", "source", "none", "none")
ALIGN = ("m", "te", "big", "align", "full")


def scores(*rows):
    """Rows `(cell, seed, run, value)` of one task and metric."""
    columns = [*CELL, "task", "kind", "metric", "seed", "run", "value"]
    return pandas.DataFrame(
        [(*cell, "mt", "translation", "chrf", seed, run, value) for cell, seed, run, value in rows],
        columns=columns,
    )


def test_runs_of_one_seed_are_averaged_before_the_deviation():
    rows = [(ALIGN, 0, 0, 10.0), (ALIGN, 0, 1, 20.0), (ALIGN, 1, 0, 16.0), (ALIGN, 1, 1, 18.0)]
    found = summarize(scores(*rows)).iloc[0]
    assert found["mean"] == 16.0
    assert found["std"] == pytest.approx(math.sqrt(2))
    assert (found["n_seeds"], found["n_runs"]) == (2, 4)


def test_one_seed_deviates_over_its_runs_if_there_are_several():
    several = summarize(scores((SOURCE, 0, 0, 3.0), (SOURCE, 0, 1, 5.0))).iloc[0]
    assert (several["std"], several["over"]) == (pytest.approx(math.sqrt(2)), "runs")
    single = summarize(scores((SOURCE, 0, 0, 3.0))).iloc[0]
    assert math.isnan(single["std"]) and single["over"] == ""


def test_change_is_the_mean_less_the_source_models_of_the_same_language():
    greek = ("m", "el", *SOURCE[2:])
    summary = summarize(scores((SOURCE, 0, 0, -4.0), (greek, 0, 0, 40.0), (ALIGN, 0, 0, -1.0),
                               (ALIGN, 1, 0, -3.0)))  # fmt: skip
    (align,) = select(summary, initializer="align").to_dict("records")
    # An increase of a negative score is positive.
    assert (align["change"], align["relative_change"]) == (2.0, 0.5)
    assert math.isnan(summarize(scores((ALIGN, 0, 0, 5.0))).iloc[0]["change"])


def test_an_increase_of_a_negative_score_is_positive():
    found = aligned((SOURCE, 0, 0, -0.5), (ALIGN, 0, 0, -0.25))
    assert found["relative_change"] == 0.5
