"""What is wrong with the texts of a study: two tables, and sentences that a reader must see."""

import pytest

from lexigraft.report.page import text_caveats
from lexigraft.report.records import read_study
from lexigraft.report.tables.contamination import contamination
from lexigraft.report.tables.texts import texts

CELL = ("m", "te-made", "source", "none", "none", 0)
NOTHING = {"texts": 500, "found": 0, "mostly_found": 0, "training_sentences": 0}


@pytest.fixture
def made(made_study):
    """Telugu with quotes left as they are and a known benchmark; Greek with quotes repaired."""
    made_study.record(CELL, "t", "translation", {"chrf": 1.0})
    known = {"bench": NOTHING | {"found": 9, "mostly_found": 12}}
    made_study.corpus("te-made", known, csv_quotes=11)
    unknown = {"bench": NOTHING, "summarization": NOTHING | {"texts": 0}}
    made_study.corpus("el-made", unknown, repair=["quotes"], csv_quotes=11)
    return made_study


def study_of(made):
    return read_study(made.settings, made.inputs)


def build(module, made):
    study = study_of(made)
    return module(study)


def test_columns_and_caveats_are_of_damage_that_some_text_has(made):
    found = build(texts, made)
    assert [head for _, head in found.columns] == [
        "read", "kept", "repeated", "byte order mark", "with doubled quotes as in CSV files",
    ]  # fmt: skip
    rows = {row.stub: [cell.text for cell in row.cells] for row in found.rows}
    assert rows["Telugu", "parallel"] == ["1,200", "1,100", "100", "1", "11"]
    assert rows["Greek", "text"][-1] == "0"
    assert "Greek (quotes)" in found.notes[0]
    assert "Telugu" not in found.notes[0]
    quotes, bench = text_caveats(study_of(made))
    assert quotes.startswith("Telugu, parallel: 11 of 1,200 lines are")
    assert "`repair: [quotes]`" in quotes
    assert bench.startswith("Telugu: of 500 texts of bench, 9 are wholly and 12 mostly in")


def test_a_caveat_names_the_sizes_of_a_small_text(made):
    reduced = {
        "heldout_sentences": {"wanted": 1000, "taken": 90},
        "translation_pairs": {"wanted": 500, "taken": 207},
    }
    made.corpus("el-made", {}, reduced=reduced)
    (said,) = (text for text in text_caveats(study_of(made)) if "little text" in text)
    assert said == (
        "Greek has little text: 90 heldout sentences instead of 1,000, "
        "207 translation pairs instead of 500."
    )


def test_tests_of_tasks_stand_beside_those_of_the_corpus_of_their_language(made):
    made.counted("te-made", "quad", ("te-made", "questions", 30, 0), ("english", "contexts", 9, 2))
    made.counted("el-made", "ntrex", ("el-made", "", 70, 7), ("english", "", 0, 0))
    rows = {row.stub: row.cells[1].text for row in build(contamination, made).rows}
    assert list(rows.items()) == [
        (("Telugu", "bench"), "9"),
        (("Telugu", "quad, questions"), "0"),
        (("Telugu", "quad, english contexts"), "2"),
        (("Greek", "bench"), "0"),
        (("Greek", "ntrex"), "7"),
    ]
    caveats = text_caveats(study_of(made))
    assert any(text.startswith("Greek: of 70 texts of ntrex, 7 are wholly") for text in caveats)
    assert not any("questions" in text for text in caveats)


def test_a_study_without_cards_of_texts_shows_neither(made_study):
    made_study.record(CELL, "t", "translation", {"chrf": 1.0})
    assert build(texts, made_study) is None
    assert build(contamination, made_study) is None
    assert text_caveats(study_of(made_study)) == []
