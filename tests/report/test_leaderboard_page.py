"""docs/leaderboard.md with a small record, written as its study would write it."""

from dataclasses import replace

import pytest

from lexigraft.report.formats import write_table
from lexigraft.report.items import read_items
from lexigraft.report.records import read_study
from lexigraft.report.tables.leaderboard import build
from tests.report.conftest import MadeStudy
from tests.report.test_starting_points import sentences
from workflow import pages

SOURCE = "smollm2-135m"
# Bits per byte; the source model has 1. Multivariate rows do worse than random rows.
BITS = {"random": 3.0, "mean": 2.0, "focus-short": 1.5, "multivariate": 3.2}


def write_study(made):
    for language in ("te-made", "el-made"):
        for task in ("interface", "human-rights"):
            for name, bits in {"none": 1.0, **BITS}.items():
                if (name, task, language) != ("multivariate", "human-rights", "el-made"):
                    vocabulary = "source" if name == "none" else "expand-500"
                    cell = (SOURCE, language, vocabulary, name, "none", 0)
                    made.record(cell, task, "perplexity", {"bits_per_byte": bits},
                                predictions=sentences(bits))  # fmt: skip
        for name in BITS:
            numbers = {"seconds": 1.25, "peak_memory_bytes": 1_234_000_000, "relative_norm": 0.75}
            made.initialized(language, name, source=SOURCE, **numbers)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The table that a report writes, as a row of values for each of its own."""
    folder = tmp_path_factory.mktemp("leaderboard")
    made = MadeStudy(folder)
    write_study(made)
    study = read_study(made.settings, made.inputs)
    table = build(study.part(read_items(["leaderboard"])[0]))
    write_table(replace(table, name="leaderboard"), folder)
    frame = pages._filled(folder, "leaderboard.csv")["leaderboard"]
    return pages._rows(frame)


@pytest.fixture
def page(recorded, tmp_path, monkeypatch):
    run = {"date": "2026-01-02", "version": "0.2.0", "jobs": 1234, "elapsed": 3000}
    content = {"study": "leaderboard", "run": run, "tables": {"leaderboard": recorded}}
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    (tmp_path / "results").mkdir()
    pages.write_record("leaderboard", content)
    return pages.render("leaderboard.md")


def test_its_table_has_a_row_of_as_many_cells_for_each_initializer(page):
    (table,) = (block.split("\n") for block in page.split("\n\n") if block.startswith("|"))
    assert len({line.count("|") for line in table}) == 1
    assert set(table[1]) == set("|-:")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[2:]]
    assert rows == [
        ["source model", "1.000", "100 %", "", "1.000", "100 %", "", "", "", "", ""],
        ["`focus`", "1.500", "75 % (75 to 75)", "1.0", "1.500", "75 % (75 to 75)", "1.0",
         "1.2", "1,234", "0.75", "100 %"],
        ["`mean`", "2.000", "50 % (50 to 50)", "2.0", "2.000", "50 % (50 to 50)", "2.0",
         "1.2", "1,234", "0.75", "100 %"],
        ["`random`", "3.000", "0 % (0 to 0)", "3.0", "3.000", "0 % (0 to 0)", "3.0",
         "1.2", "1,234", "0.75", "–"],
        ["`multivariate`", "3.200", "−10 % (−10 to −10)", "4.0", "–", "–", "–",
         "1.2", "1,234", "0.75", "–"],
    ]  # fmt: skip


def test_it_says_when_it_was_measured_and_by_which_version(page):
    measured = "with version 0.2.0 (2026-01-02) on two cores: 1,234 jobs in 50 minutes."
    assert measured in " ".join(page.split())
    assert "has not been run" not in page
