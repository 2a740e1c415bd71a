"""Changes of length between tokenizers: which have stars, and what the CSV file has of them."""

import math

import pytest

from lexigraft.report.frame import TokenCounts
from lexigraft.report.items import read_items
from lexigraft.report.records import read_study
from lexigraft.report.tables.tokenizers import length_changes, tokenizers

SMALL = [10 + at % 5 for at in range(40)]
LARGE = [4 + at % 3 for at in range(40)]


def counts(**tokens):
    return {(name, "te"): TokenCounts(len(own), own) for name, own in tokens.items()}


def change(one, other):
    return length_changes(counts(a=one, b=other), ["te"], [("a", "b")])["te", "a", "b"]


def test_a_change_on_which_all_texts_agree_has_no_width():
    found = change([2 * n for n in SMALL], SMALL)
    assert [found.value, found.low, found.high] == pytest.approx([1, 1, 1])
    assert found.stars == "**" and found.examples == 40
    assert math.isnan(found.effect)


def test_the_change_is_of_all_tokens_and_its_effect_of_each_text():
    found = change([1, 9], [2, 10])
    assert found.value == pytest.approx(10 / 12 - 1)
    # The texts alone: logarithms of 1/2 and of 9/10.
    low, high = math.log(0.5), math.log(0.9)
    assert found.effect == pytest.approx((low + high) / 2 / (abs(high - low) / math.sqrt(2)))


def test_texts_that_disagree_leave_no_stars():
    found = change([8, 12] * 20, [12, 8] * 20)
    assert found.value == 0 and found.p == 1
    assert found.low < 0 < found.high


def test_half_as_long_is_as_far_as_twice_as_long():
    one, other = change(SMALL, LARGE), change(LARGE, SMALL)
    assert one.p == other.p
    assert (1 + one.low) * (1 + other.high) == pytest.approx(1)


def test_tokenizers_that_were_measured_on_other_texts_are_not_compared():
    assert length_changes(counts(a=SMALL, b=LARGE[:9]), ["te"], [("a", "b")]) == {}
    assert length_changes(counts(a=SMALL), ["te"], [("a", "b")]) == {}


def test_of_groups_of_texts_no_effect_is_told():
    grouped = {name: TokenCounts(4000, own) for (name, _), own in
               {("a", 0): SMALL, ("b", 0): LARGE}.items()}  # fmt: skip
    found = length_changes({(name, "te"): own for name, own in grouped.items()}, ["te"],
                           [("a", "b")])["te", "a", "b"]  # fmt: skip
    assert math.isnan(found.effect) and found.examples == 4000 and found.stars == "**"


@pytest.fixture
def compared(made_study):
    made_study.tokenizer("small", "te-made", sum(SMALL) / 40, tokens=SMALL)
    made_study.tokenizer("large", "te-made", sum(LARGE) / 40, tokens=LARGE)
    made_study.tokenizer("small", "el-made", 80.0)
    made_study.tokenizer("large", "el-made", 40.0)
    return made_study


def test_the_table_has_stars_where_the_tokens_of_each_text_were_kept(compared):
    study = read_study(compared.settings, compared.inputs)
    (item,) = read_items([{"item": "tokenizers", "compared_with": ["small"]}])
    found = tokenizers(study.part(item))
    last = {row.stub: row.cells[-1] for row in found.rows}
    assert last["Telugu", "large"].stars == "**"
    assert last["Telugu", "small"].stars == last["Greek", "large"].stars == ""
    assert last["Greek", "large"].text == "−50.0 %"
    assert any("over texts" in note for note in found.notes)
    assert any("not tested" in note and "Greek" in note for note in found.notes)
    data = found.data[found.data["metric"] == "tokens_per_sentence_change"]
    (row,) = data.to_dict("records")
    assert (row["tokenizer"], row["compared_with"], row["language"]) == (
        "large",
        "small",
        "te-made",
    )
    assert row["value"] == pytest.approx(sum(LARGE) / sum(SMALL) - 1)
    assert row["change_low"] < row["value"] < row["change_high"]
    assert row["p_corrected"] < 0.01
