"""Which speed-ups have stars: on times and texts that are made up to differ or not to."""

import math
from pathlib import Path

import numpy as np
import pytest

from lexigraft.report.items import read_items
from lexigraft.report.records import read_study
from lexigraft.report.significance import Spread
from lexigraft.report.speed import repeat_noise
from lexigraft.report.table import as_html, latex, markdown
from lexigraft.report.tables.results import results
from lexigraft.report.tables.speed import speed

SOURCE = ("m", "te-made", "source", "none", "none", 0)
LAPT = ("m", "te-made", "source", "none", "full", 0)
METRIC = "same_text_characters_per_second_batch_1"
SMALL = [10 + at % 5 for at in range(40)]  # tokens of forty sentences
LARGE = [4 + at % 3 for at in range(40)]


def cell(initializer, seed=0):
    return ("m", "te-made", "big", initializer, "full", seed)


@pytest.fixture
def made(made_study):
    made_study.settings["reference"] = {"strategy": "full"}
    return made_study


def table(made, item="speed", module=speed):
    (asked,) = read_items([item])
    study = read_study(made.settings, made.inputs).part(asked)
    return module(study)


def cells(table):
    return {row.stub[-1]: row.cells[-1] for row in table.rows}


def rows(table):
    data = table.data[table.data["metric"] == METRIC]
    return data.set_index(["initializer", "strategy"])


def steady(made):
    """Source and LAPT, Align and Mean: measurements of one vocabulary differ by a hundredth."""
    for one, tokens, took in (
        (SOURCE, SMALL, 10.0), (LAPT, SMALL, 10.1), (cell("align"), LARGE, 10.0),
        (cell("mean"), LARGE, 10.1),
    ):  # fmt: skip
        made.timed(one, tokens, [took, took, took])


def test_a_speed_up_far_beyond_what_measurements_differ_by_has_stars(made):
    steady(made)
    found = table(made)
    ratio = sum(SMALL) / sum(LARGE)
    assert cells(found)["Align"].text == f"{ratio:.2f}×"
    assert cells(found)["Align"].stars == cells(found)["Mean"].stars == "**"
    # LAPT has Source's vocabulary and does the same work.
    assert (cells(found)["LAPT"].text, cells(found)["LAPT"].stars) == ("0.99×", "")
    assert any("models of one vocabulary" in note and "3 speed-ups" in note for note in found.notes)


def test_the_csv_has_interval_p_and_effect_beside_the_speed_up(made):
    steady(made)
    found = rows(table(made)).loc[("align", "full")]
    assert found["speed_up"] == pytest.approx(sum(SMALL) / sum(LARGE))
    assert found["speed_up_low"] < found["speed_up"] < found["speed_up_high"]
    assert found["p"] <= found["p_corrected"] < 0.01
    assert (found["tested_examples"], found["measurement_freedom"]) == (40, 2)
    each = [math.log(one / other) for one, other in zip(SMALL, LARGE, strict=True)]
    assert found["effect_size"] == pytest.approx(np.mean(each) / np.std(each, ddof=1))
    assert math.isnan(rows(table(made)).loc[("none", "none")]["p"])


def test_lapt_has_an_effect_of_nothing_but_time(made):
    steady(made)
    found = rows(table(made)).loc[("none", "full")]
    assert math.isnan(found["effect_size"])  # each sentence is as much slower as the others
    assert found["p"] > 0.05


def test_measurements_that_differ_as_much_as_the_models_take_the_stars(made):
    for one, tokens, took in (
        (SOURCE, SMALL, 10.0), (LAPT, SMALL, 25.0), (cell("align"), LARGE, 10.0),
        (cell("mean"), LARGE, 22.0),
    ):  # fmt: skip
        made.timed(one, tokens, [took, took, took])
    found = cells(table(made))
    assert found["Align"].value > 2
    assert not any(cell.stars for cell in found.values())


def test_a_text_on_which_all_sentences_agree_leaves_the_ratio_alone(made):
    """Every sentence takes half the tokens, and all times are the same: nothing can vary."""
    for one, tokens in ((SOURCE, SMALL), (LAPT, SMALL), (cell("align"), [n / 2 for n in SMALL])):
        made.timed(one, tokens, [10.0, 10.0, 10.0])
    found = rows(table(made)).loc[("align", "full")]
    for name in ("speed_up", "speed_up_low", "speed_up_high"):
        assert found[name] == pytest.approx(2)


def test_sentences_that_disagree_make_the_interval_wide(made):
    mixed = [(5, 20)[at % 2] for at in range(40)]
    for one, tokens in ((SOURCE, [10] * 40), (LAPT, [10] * 40), (cell("align"), mixed)):
        made.timed(one, tokens, [10.0, 10.0, 10.0])
    found = rows(table(made)).loc[("align", "full")]
    assert found["speed_up"] == pytest.approx(0.8)
    # The mean of forty lengths of 5 or 20 varies by 7.5 / √40 = 1.19, a tenth of 12.5.
    assert found["speed_up_low"] == pytest.approx(0.8 / 1.19, rel=0.04)
    assert found["speed_up_high"] == pytest.approx(0.8 / 0.81, rel=0.05)


def test_vocabularies_measured_once_have_an_interval_and_no_p(made):
    made.timed(SOURCE, SMALL, [10.0, 10.2, 9.9])
    made.timed(cell("align"), LARGE, [10.1, 10.0, 10.3])
    found = table(made)
    assert cells(found)["Align"].stars == ""
    row = rows(found).loc[("align", "full")]
    assert row["speed_up_low"] < row["speed_up"] < row["speed_up_high"]
    assert math.isnan(row["p"]) and math.isnan(row["p_corrected"])
    assert row["measurement_freedom"] == 0
    assert any("each vocabulary was measured once" in note for note in found.notes)
    assert not any("* p < 0.05" in note for note in found.notes)


def test_repeats_that_differ_more_make_such_an_interval_wider(made, tmp_path):
    def width(spread):
        made.inputs["records"].clear()
        made.timed(SOURCE, SMALL, [10.0, 10.0 + spread, 10.0 - spread])
        made.timed(cell("align"), LARGE, [10.0, 10.0 + spread, 10.0 - spread])
        row = rows(table(made)).loc[("align", "full")]
        return row["speed_up_high"] - row["speed_up_low"]

    assert width(2.0) > 3 * width(0.01)


def test_seeds_are_measurements_too(made):
    made.timed(SOURCE, SMALL, [10.0])
    for seed, took in enumerate((9.9, 10.0, 10.1)):
        made.timed(cell("align", seed), LARGE, [took])
    found = rows(table(made)).loc[("align", "full")]
    assert found["measurement_freedom"] == 2
    rates = [100 / took for took in (9.9, 10.0, 10.1)]
    expected = sum(rates) / 3 / 10 * sum(SMALL) / sum(LARGE)
    assert found["speed_up"] == pytest.approx(expected)
    assert found["p_corrected"] < 0.05


def test_without_the_lengths_of_sentences_speed_ups_are_shown_and_not_tested(made):
    for one, rate in ((SOURCE, 8.0), (cell("align"), 20.0)):
        made.record(one, "speed", "speed", {"tokens_per_second_batch_1": 20.0, METRIC: rate})
    found = table(made)
    assert (cells(found)["Align"].text, cells(found)["Align"].stars) == ("2.50×", "")
    assert any(note.startswith("Speed-ups not tested") for note in found.notes)


def test_a_speed_that_its_times_do_not_make_is_not_tested(made):
    steady(made)
    record = Path(made.inputs["records"][2])  # Align's
    text = record.read_text("utf-8")
    record.write_text(text.replace('"steps": 100', '"steps": 300'), "utf-8")
    assert cells(table(made))["Align"].stars == ""
    assert cells(table(made))["Mean"].stars == "**"


def test_the_row_of_speed_ups_below_results_has_stars_and_is_in_the_csv(made):
    steady(made)
    for one in (SOURCE, LAPT, cell("align"), cell("mean")):
        made.record(one, "translation", "translation", {"chrf": 20.0})
    found = table(made, {"item": "results", "speed_up_of": "align"}, results)
    assert found.rows[-1].stub[-1] == "Speed-up (Align)"
    assert found.rows[-1].cells[0].stars == "**"
    (row,) = rows(found).to_dict("records")
    assert row["speed_up"] == pytest.approx(sum(SMALL) / sum(LARGE))
    assert row["p_corrected"] < 0.01
    assert len(found.data[found.data["metric"] == "chrf"]) == 4
    shown = f"{sum(SMALL) / sum(LARGE):.2f}"
    assert rf"{shown}× \*\*" in markdown(found)
    assert rf"{shown}$\times${{\tiny**}}" in latex(found)
    assert f"<b>{shown}×</b><i>**</i>" in as_html(found)


@pytest.mark.parametrize(("count", "variance"), [(1, 1.0), (2, 0.5), (3, 0.4487), (5, 0.2868)])
def test_the_noise_of_repeats_is_that_of_their_median(count, variance):
    # Variances of the median of so many standard normals.
    noise = repeat_noise(Spread(0.1, 10_000), (count, count), 40_000, np.random.default_rng(0))
    assert noise.std() == pytest.approx(0.1 * math.sqrt(2 * variance), rel=0.03)


def test_a_deviation_of_few_repeats_may_be_too_small(made):
    rng = np.random.default_rng(0)
    few, many = (repeat_noise(Spread(0.1, freedom), (1, 1), 40_000, rng) for freedom in (2, 10_000))
    assert np.quantile(few, 0.975) > 1.8 * np.quantile(many, 0.975)
    assert not repeat_noise(Spread(0.1, 0), (1, 1), 10, rng).any()
