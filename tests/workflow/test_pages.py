"""Tables of pages come from the records in docs/results."""

import pytest
import yaml

from lexigraft.errors import UserError
from workflow import pages, records
from workflow.pages import AREAS, filled, marks, table
from workflow.records import Record, as_text

SCORES = [
    ["language", "initializer", "metric", "mean", "std", "n_seeds"],
    ["te", "mean", "bits_per_byte", 1.5, None, 1],
    ["te", "random", "bits_per_byte", 2.25, 0.25, 2],
    ["el", "mean", "bits_per_byte", -0.0004, None, 1],
    ["te", "mean", "chrf", 0.125, None, 1],
]
RECORD = {"study": "small", "run": {"version": "0.3.0"}, "tables": {"scores": SCORES}}


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Functions that declare a table of a small record, and return it as lines of cells."""
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    monkeypatch.setattr(pages, "TABLES", tmp_path / "tables.yaml")
    (tmp_path / "small.json").write_text(as_text(RECORD))

    def declare(**declaration):
        declaration = {"record": "small", "from": "scores"} | declaration
        pages.TABLES.write_text(yaml.safe_dump({"scores": declaration}, sort_keys=False))
        return table("scores").split("\n")

    return declare


@pytest.mark.parametrize("page", pages.pages(), ids=lambda path: path.stem)
def test_the_tables_of_each_page_are_what_the_records_give(page):
    text = page.read_text(encoding="utf-8")
    assert filled(text) == text, "run `make pages`"


def test_every_declared_table_is_shown_on_a_page():
    shown = "".join(page.read_text(encoding="utf-8") for page in pages.pages())
    names = [name for name in pages.read_yaml(pages.TABLES) if not name.startswith("_")]
    assert [name for name in names if f"<!-- table: {name} -->" not in shown] == []


def test_a_grid_shows_the_row_that_its_row_and_column_select(small):
    lines = small(
        where={"metric": "bits_per_byte"},
        columns={"Telugu": {"language": "te"}, "Greek": {"language": "el"}},
        rows={"Random": {"initializer": "random"}},
        each=["initializer"],
        cell="{mean:.2f}{deviation}",
    )
    assert lines == [
        "| | Telugu | Greek |",
        "|---|---:|---:|",
        "| Random | 2.25 ± 0.250 | – |",
        "| mean | 1.50 | 0.00 |",
        "| random | 2.25 ± 0.250 | – |",
    ]


def test_several_parts_of_a_cell_are_joined_and_missing_ones_are_left_out(small):
    lines = small(
        where={"metric": "bits_per_byte"},
        columns={"mean to random": {}},
        each=["language"],
        cell=[{"initializer": name, "cell": "{mean:.1f}"} for name in ("mean", "random")],
        join=" to ",
    )
    assert lines[2:] == ["| te | 1.5 to 2.2 |", "| el | 0.0 |"]


def test_a_list_has_a_row_for_each_selected_row_of_the_record(small):
    lines = small(
        where={"language": ["te", "el"], "initializer": "mean"},
        titles={"language": {"te": "Telugu"}},
        header="language | mean | deviation",
        row="{language} | {mean:.0%} | {std}",
        facts=True,
    )
    assert lines == [
        "| language | mean | deviation |",
        "|---|---:|---:|",
        "| Telugu | 150 % | – |",
        "| el | 0 % | – |",
        "| Telugu | 12 % | – |",
        "",
        "Measured: version 0.3.0.",
    ]


def test_a_cell_that_could_be_several_rows_is_refused(small):
    with pytest.raises(UserError, match=r"tables.yaml: 2 rows of scores in .*small.json match"):
        small(columns={"mean": {"initializer": "mean"}}, rows={"te": {"language": "te"}}, cell="")


def test_an_unknown_table_is_refused_with_a_similar_name(small):
    small(columns={}, cell="")
    with pytest.raises(UserError, match=r"'score' .*mean 'scores'"):
        filled("<!-- table: score -->\n<!-- end of table -->\n")
    with pytest.raises(UserError, match="there is no table speed"):
        Record(records.record_path("small")).rows("speed")


def test_a_study_that_has_not_run_cannot_be_recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="there is no report; run study default first"):
        pages.main(str(pages.ROOT / "config/config.yaml"))


def test_every_mark_names_an_area_a_case_and_an_outcome(pytestconfig):
    areas = {mark: set() for mark in AREAS}
    for mark, arguments in marks():
        area, case, outcome = arguments
        assert area in AREAS[mark] and case and outcome, arguments
        areas[mark].add(area)
    assert areas == {mark: set(titles) for mark, titles in AREAS.items()}
    known = {line.split("(")[0] for line in pytestconfig.getini("markers")}
    assert known >= set(AREAS)


def test_marks_of_tests_and_of_their_parameters_are_counted(tmp_path):
    (tmp_path / "test_a.py").write_text(
        "@pytest.mark.fault('disk', 'a full disk', 'one ' 'line')\n"
        "def test_a(): ...\n"
        "@pytest.mark.parametrize('x', [\n"
        "    pytest.param(1, marks=[pytest.mark.bad_input('text', 'no text', 'one line')]),\n"
        "])\n"
        "def test_b(x): ...\n"
    )
    assert sorted(marks(tmp_path)) == [
        ("bad_input", ["text", "no text", "one line"]),
        ("fault", ["disk", "a full disk", "one line"]),
    ]
