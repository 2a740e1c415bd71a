"""The table of the source tokens nearest to new tokens."""

from lexigraft.report.items import read_items
from lexigraft.report.records import read_study
from lexigraft.report.tables.nearest_tokens import nearest_tokens

FIT = ("m", "te-made", "big", "unifyvocab", 0)


def built(made, examples):
    study = read_study(made.settings, made.inputs)
    (item,) = read_items(["nearest_tokens"])
    study.examples[FIT] = examples
    return nearest_tokens(study.part(item))


def test_each_new_token_has_its_nearest_source_tokens_in_order(made_study):
    made_study.record((*FIT[:4], "none", 0), "mt", "translation", {"chrf": 9.0})
    near = [["one", 0.91], ["two", 0.5]]
    table = built(made_study, [
        {"token": "x", "text": "x", "parts": [["one", 1.0]], "more": 0, "nearest": near},
        {"token": "y", "text": "y", "parts": [], "more": 0, "nearest": []},
    ])  # fmt: skip
    (row,) = table.rows
    assert row.stub[-2:] == ("UnifyVocab", "x")
    assert [(cell.text, cell.change) for cell in row.cells] == [
        ("one", "0.91"), ("two", "0.50"), ("–", ""),
    ]  # fmt: skip
    assert table.data["source_token"].tolist() == ["one", "two"]


def test_methods_that_look_for_none_have_no_table(made_study):
    made_study.record((*FIT[:4], "none", 0), "mt", "translation", {"chrf": 9.0})
    assert built(made_study, [{"token": "x", "text": "x", "parts": [], "more": 0}]) is None
