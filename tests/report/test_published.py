"""Numbers of papers beside a made-up study's."""

import pytest

from lexigraft.errors import UserError
from lexigraft.report.items import check_items, read_items
from lexigraft.report.published import read_published
from lexigraft.report.records import read_study
from lexigraft.report.tables.published import published
from tests.report.conftest import numbers

FULL = "full-clm-512"
SOURCE = ("m", "te-made", "source", "none", "none", 0)
ALIGN = ("m", "te-made", "big", "align", FULL)
AXES = ("source", "language", "vocabulary", "initializer", "strategy")


@pytest.fixture
def made(made_study):
    """Source in two runs, 10 ± 1.4; Align with two seeds, 16 ± 2.8; Mean with one, 9."""
    made_study.record(SOURCE, "mt", "translation", {"chrf": 9.0}, run=0)
    made_study.record(SOURCE, "mt", "translation", {"chrf": 11.0}, run=1)
    made_study.record((*ALIGN, 0), "mt", "translation", {"chrf": 14.0})
    made_study.record((*ALIGN, 1), "mt", "translation", {"chrf": 18.0})
    made_study.record(("m", "te-made", "big", "mean", FULL, 0), "mt", "translation", {"chrf": 9.0})
    return made_study


def build(made, *paths, **options):
    made.inputs["published"] = list(paths)
    (item,) = read_items([{"item": "published", **options}])
    return published(read_study(made.settings, made.inputs).part(item))


def texts(table):
    return [[cell.text for cell in row.cells] for row in table.rows]


def test_a_number_stands_beside_the_score_of_its_cell(made, tmp_path):
    align = dict(zip(AXES, ALIGN, strict=True))
    # Printed as .12, which is 12 here; deviation of 14 and 18: sqrt(8)
    table = build(
        made, numbers(tmp_path, align | {"value": "0.12", "spread": "0.01", "factor": 100})
    )
    (row,) = table.rows
    assert row.stub == ("Table 1", "a model", "MT")
    paper, here, difference, within = row.cells
    assert (paper.text, paper.deviation) == ("12.0", "1.0")
    assert (here.text, here.deviation) == ("16.0", "2.8")
    assert (difference.text, within.text) == ("+4.0", "yes")
    (line,) = table.data.to_dict("records")
    assert (line["published"], line["here"], line["n_seeds"]) == (12.0, 16.0, 2)


@pytest.mark.parametrize(
    ("printed", "spread", "within"),
    [
        # Align has 16 ± 2.83: two deviations are 5.66, and rounding adds 0.05
        ("10.3", "", "yes"),
        ("10.2", "", "no"),
        ("8.0", "4.0", "yes"),  # the paper's deviation is the larger one
        ("22", "", "yes"),  # rounding adds 0.5
        ("22.5", "", "no"),
    ],
)
def test_a_score_is_within_two_deviations_and_the_rounding(made, tmp_path, printed, spread, within):
    row = dict(zip(AXES, ALIGN, strict=True)) | {"value": printed, "spread": spread}
    assert texts(build(made, numbers(tmp_path, row)))[0][3] == within


def test_numbers_that_are_not_compared_are_counted_by_reason(made, tmp_path):
    only_there = {"initializer": "zett", "value": "5"}
    means = [
        {"task": "", "metric": "", "reason": "average", "value": value, "row": value}
        for value in ("7", "8")
    ]
    source = {"vocabulary": "source", "value": "10"}
    table = build(made, numbers(tmp_path, only_there, *means, source))
    assert len(table.rows) == 1
    assert table.notes[-1] == (
        "Not compared: 3 of 4 numbers of the paper (average: 2; not evaluated in this study: 1)."
    )
    assert build(made, numbers(tmp_path, only_there, *means)) is None


def test_a_number_of_an_alias_is_compared_with_the_cell_of_its_rows(made, tmp_path):
    made.settings["aliases"] = [
        {"initializer": "merge", "same_as": "align", "vocabularies": ["big"], "sources": None}
    ]
    table = build(made, numbers(tmp_path, {"initializer": "merge", "value": "16"}))
    assert [*table.data["here"]] == [16.0]
    named = build(
        made,
        numbers(tmp_path, {"initializer": "merge", "value": "16"}),
        where={"initializers": ["merge"]},
    )
    assert [*named.data["here"]] == [16.0]


def test_a_number_is_compared_with_the_method_of_the_paper_and_that_of_its_code(made, tmp_path):
    cell = ("m", "te-made", "big", "mean-as-published", FULL, 0)
    made.record(cell, "mt", "translation", {"chrf": 8.0})
    table = build(made, numbers(tmp_path, {"initializer": "mean", "value": "9"}))
    rows = {row.stub[1]: row.cells[1].text for row in table.rows}
    assert rows == {"a model": "9.0", "a model, as published": "8.0"}
    table = build(made, numbers(tmp_path, {"initializer": "mean-as-published", "value": "9"}))
    rows = {row.stub[1]: row.cells[1].text for row in table.rows}
    assert rows == {"a model": "8.0", "a model, as described": "9.0"}


def test_a_printed_mean_is_compared_with_the_mean_of_its_scores(made, tmp_path):
    made.record(SOURCE, "sum", "summarization", {"chrf": 20.0})
    mean = {"vocabulary": "source", "task": "mt sum", "value": "15"}
    table = build(made, numbers(tmp_path, mean))
    assert [*table.data["here"]] == [15.0]
    assert [*table.data["task"]] == [None] and [*table.data["source"]] == ["m"]
    # A mean of scores of which one is missing is none.
    assert build(made, numbers(tmp_path, mean | {"task": "mt other"})) is None


def test_names_of_a_paper_may_stand_for_others_here(made, tmp_path):
    path = numbers(
        tmp_path,
        {"vocabulary": "small", "initializer": "mean", "value": "9", "task": "bleu"},
        {"vocabulary": "small", "initializer": "merge", "value": "16", "task": "bleu"},
    )
    replaced = {"small": "big", "merge": ["align", "mean"], "bleu": "mt"}
    table = build(made, path, replaced=replaced)
    assert [*table.data["here"]] == [9.0, 16.0, 9.0]
    assert build(made, path) is None


def test_numbers_of_vocabularies_are_compared(made, tmp_path):
    made.vocabulary("te-made", before=40.0, after=20.0, source="m", name="big")
    align = dict(zip(AXES, ALIGN, strict=True))
    row = align | {"task": "vocabulary", "metric": "fertility", "value": "2"}
    assert [*build(made, numbers(tmp_path, row)).data["here"]] == [2.5]


def test_a_source_model_may_stand_for_a_cell_of_the_paper(made, tmp_path):
    path = numbers(tmp_path, {"source": "base", "strategy": "vocadt", "value": "10"}, name="paper")
    stands_for = {"m": {"source": "base", "strategy": "vocadt"}}
    where = {"vocabularies": ["source"], "initializers": ["none"]}
    table = build(made, path, compare=["paper"], stands_for=stands_for, where=where)
    assert [*table.data["vocabulary"]] == ["source"]
    assert build(made, path, compare=["paper"]) is None


def test_papers_tables_and_tasks_are_chosen(made, tmp_path):
    rows = [{"value": "9", "vocabulary": "source", "table": number} for number in ("1", "2")]
    here, there = numbers(tmp_path, *rows), numbers(tmp_path, *rows, name="other")
    # Without a choice it is the paper of the study's own name.
    assert [row.stub[0] for row in build(made, here, there).rows] == ["Table 1", "Table 2"]
    both = build(made, here, there, compare=["other", "made"], tables=["2"])
    assert [row.stub[0] for row in both.rows] == ["made, Table 2", "other, Table 2"]
    assert build(made, here, tasks=["summaries"]) is None


def test_a_source_model_that_the_study_has_not_is_refused():
    items = read_items([{"item": "published", "stands_for": {"n": {"source": "m"}}}])
    axes = ("sources", "languages", "vocabularies", "initializers", "strategies")
    block = {axis: ["m"] for axis in axes}
    with pytest.raises(UserError, match=r"items\[0\]\.stands_for: 'n' is not in this study"):
        check_items(items, [block], ["mt"], {"tokenizers": [], "languages": []})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"value": "nan"}, "line 2: value: 'nan' is not a number"),
        ({"value": "1", "spread": "inf"}, "line 2: spread: 'inf' is not a number"),
        ({"value": "1", "factor": ""}, "line 2: factor: '' is not a number"),
        ({"value": "1", "task": "a b c", "metric": "d e"}, "line 2: fields with several names do"),
        ({"value": "1", "task": ""}, "line 2: give either a task and a metric, or the reason"),
        ({"value": "1", "reason": "loss"}, "line 2: give either a task and a metric, or the"),
    ],
)
def test_a_wrong_number_is_named_with_its_line(tmp_path, row, message):
    with pytest.raises(UserError, match=message):
        read_published([numbers(tmp_path, row)])


def test_files_that_are_none_are_refused(tmp_path):
    path = tmp_path / "made.csv"
    path.write_text("table,value\n1,2\n")
    with pytest.raises(UserError, match="its first line is not table,row,column"):
        read_published([path])
    with pytest.raises(UserError, match="cannot be read as CSV"):
        read_published([tmp_path / "nowhere.csv"])


def test_the_numbers_of_another_study_stand_beside_those_of_this_one(made, tmp_path):
    row = dict(zip(AXES, ALIGN, strict=True)) | {"value": "15"}
    path = numbers(tmp_path, row)
    made.inputs["reports"] = tmp_path
    table = build(made, path, beside="made-as-published")
    assert any("its report does not exist yet" in note for note in table.notes)
    other = tmp_path / "made-as-published" / "tables" / "published.csv"
    other.parent.mkdir(parents=True)
    build(made, path).data.assign(here=15.5).to_csv(other, index=False)
    table = build(made, path, beside="made-as-published")
    assert [head for _, head in table.columns[:3]] == ["Paper", "made-as-published", "made"]
    assert [cell.text for cell in table.rows[0].cells[:3]] == ["15.0", "15.5", "16.0"]
    assert table.data["here_made-as-published"].tolist() == [15.5]
