"""An initializer that is another one under a second name: shown where an item names it."""

import pytest

from lexigraft.report.items import read_items
from lexigraft.report.records import read_study
from lexigraft.report.tables.results import results

FULL = "full-clm-512"


@pytest.fixture
def study(made_study):
    """Two source models with `align`, in two vocabularies; `mean` is its alias in one of them."""
    made_study.settings |= {
        "reference": {"strategy": FULL},
        "aliases": [
            {"initializer": "mean", "same_as": "align", "vocabularies": ["big"], "sources": None},
            {"initializer": "merge", "same_as": "align", "vocabularies": ["big"], "sources": ["n"]},
        ],
    }
    for source, base in (("m", 10.0), ("n", 40.0)):
        cell = (source, "te-made", "source", "none", "none", 0)
        made_study.record(cell, "mt", "translation", {"chrf": base, "chrf_sentence_mean": base - 1})
        for vocabulary, gain in (("big", 5.0), ("huge", 7.0)):
            cell = (source, "te-made", vocabulary, "align", FULL, 0)
            scores = {"chrf": base + gain, "chrf_sentence_mean": base + gain - 1}
            made_study.record(cell, "mt", "translation", scores)
    return read_study(made_study.settings, made_study.inputs)


def part(study, **where):
    (item,) = read_items([{"item": "results", "where": where}])
    return study.part(item)


def shown(table):
    return {row.stub: row.cells[0].text for row in table.rows if "Source" not in row.stub}


def test_both_names_show_the_scores_of_the_one_cell(study):
    own = part(study, sources=["m"], vocabularies=["big"], initializers=["mean", "align"])
    assert shown(results(own)) == {("Mean",): "15.0", ("Align",): "15.0"}
    assert own.alias_note() == "Mean is Align under another name: both compute the same rows."


def test_an_alias_is_of_its_vocabularies_and_source_models_alone(study):
    names = ["mean", "merge", "align"]
    found = shown(results(part(study, vocabularies=["big", "huge"], initializers=names)))
    assert found["m", "big", "Mean"] == "15.0" and found["n", "big", "Merge"] == "45.0"
    assert found["n", "huge", "Align"] == "47.0"
    for missing in (("m", "big", "Merge"), ("m", "huge", "Mean"), ("n", "huge", "Merge")):
        assert found[missing] == "–"
    notes = part(study, sources=["m"], initializers=names).alias_note()
    assert "Mean" in notes and "Merge" not in notes


def test_an_item_that_does_not_name_it_shows_the_cell_once(study):
    for own in (study.part(read_items(["results"])[0]), part(study, sources=["m"])):
        assert set(own.scores["initializer"]) == {"none", "align"}
        assert own.alias_note() == ""
    assert set(part(study, initializers=["mean"]).scores["initializer"]) == {"none", "mean"}


def test_the_csv_file_has_the_mean_of_sentences_beside_the_corpus_score(study):
    table = results(part(study, sources=["m"], vocabularies=["big"]))
    rows = table.data[table.data["initializer"] == "align"]
    assert dict(zip(rows["metric"], rows["mean"], strict=True)) == {
        "chrf": 15.0, "chrf_sentence_mean": 14.0,
    }  # fmt: skip
    assert any("chrf_sentence_mean" in note for note in table.notes)
    assert len(table.columns) == 1
