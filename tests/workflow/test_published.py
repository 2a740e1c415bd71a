"""config/published: what the papers print agrees with itself, and is of the studies' cells."""

import re
from functools import cache

import pytest

from lexigraft.cells import cells_of
from lexigraft.errors import UserError
from lexigraft.report.frame import CELL
from lexigraft.report.published import read_published
from lexigraft.report.tables.published import names_in_papers
from lexigraft.yaml_files import read_yaml
from tests.workflow.conftest import open_study
from workflow.config.registries import PUBLISHED, ROOT, load_registries, resolve

FOLDER = ROOT / PUBLISHED
# How many numbers each table has, by its rows and columns.
TABLES = {
    "lowres": {
        "1": 7 * 20 - 2,  # two are illegible
        "2": 7 * 10,
        "3": 7 * 20,
        "4": 14 * 12,
        "5": 2 * 6 * 6,
        "9": 4 * 6 - 1,
        "10": 8 * 6,
        "11": 2 * 5 * 3,
        "12": 3 * 5 * 6,
    },
    "vocadt": {
        "2": 2 * (12 * 5 - 3),
        "3": 12 * 5 - 3,  # three rows without ZeTT
        "4": 12 * 5 - 3,
        "5": 6 * 5,
        "6": 5 * 5,
        "7": 13 * 5 - 3,
        "8": 6 * 5 - 2,
        "10": 2 * 12 * 5,
        "11": (6 + 5 + 13 + 6) * 5,
    },
    "salt": {
        "1": 8 * 12,
        "2": 8 * 15,
        "3": 4 * 16,
        "4": 6 * 12,
        "5": 6 * 9,
        "6": 6 * 3,
        "8": 8 * 3,
        "9": 3 * 3 + 6,
    },
    "unifyvocab": {
        "1": 15 * 14,
        "2": 13 * 14,
        "3": 12 * 14,
        "5": 10 * 19,
        "6": 4 * 14,
        "7": 10 * 19,
    },
    "cw2v": {"2": 6 * 14, "3": 3 * 5, "4": 2 * 3},
}
STUDIES = {paper: [paper] for paper in TABLES} | {"cw2v": ["cw2v", "cw2v-roberta"]}
# Names of cells that only the papers have.
ONLY_THERE = {"unifyvocab": {"zett"}}

numbers = cache(lambda paper: read_published([FOLDER / f"{paper}.csv"]))


def average_of(one, others):
    """The numbers of its table that a printed average is the mean of."""
    if of_rows := re.fullmatch(r"Avg \((\d+) \w+\)", one.row):  # VocADT: of the first rows
        column = [other for other in others if other.column == one.column]
        return [other for other in column if "Avg" not in other.row][: int(of_rows[1])]
    before, _, after = one.column.partition("Avg")
    return [
        other
        for other in others
        if other.row == one.row
        and "Avg" not in other.column
        and other.column.startswith(before)
        and other.column.endswith(after)
    ]


@pytest.mark.parametrize("paper", TABLES)
def test_every_number_of_a_table_is_there(paper):
    counted = {}
    for one in numbers(paper):
        counted[one.table] = counted.get(one.table, 0) + 1
    assert counted == TABLES[paper]
    places = [(one.table, one.row, one.column) for one in numbers(paper)]
    assert len({*places}) == len(places)


@pytest.mark.parametrize(("paper", "count"), [("vocadt", 114), ("salt", 58), ("unifyvocab", 108)])
def test_a_printed_average_is_the_mean_of_its_numbers(paper, count):
    tables = {}
    for one in numbers(paper):
        tables.setdefault(one.table, []).append(one)
    averages = [one for one in numbers(paper) if re.search(r"Avg(?!\.)", one.row + one.column)]
    assert len(averages) == count
    for one in averages:
        parts = average_of(one, tables[one.table])
        assert len(parts) in (3, 4, 5, 6, 8, 9, 10, 11, 18), one
        mean = sum(part.value for part in parts) / len(parts)
        # The parts are rounded too.
        assert abs(mean - one.value) <= one.rounding + parts[0].rounding + 1e-9, one


def of_the_same(one):
    return (*sorted(one.cell.items()), one.task, one.metric)


@pytest.mark.parametrize("paper", TABLES)
def test_a_number_that_two_tables_print_is_the_same_in_both(paper):
    printed = {}
    for one in numbers(paper):
        if one.task:
            printed.setdefault(of_the_same(one), []).append(one)
    several = [group for group in printed.values() if len(group) > 1]
    differing = {
        (*(one.table for one in group), group[0].row)
        for group in several
        for other in group[1:]
        if abs(other.value - group[0].value) > 0.99 * (other.rounding + group[0].rounding)
    }
    assert differing == {"lowres": {("5", "12", "Llama3 LAPT")}}.get(paper, set())


def test_as_many_models_do_as_well_as_source_as_the_paper_says():
    """§7.1: of 20 languages and tasks; Align's summaries in Thai are illegible."""
    table = [one for one in numbers("lowres") if one.table == "1"]
    source = {one.column: one.value for one in table if one.row == "Source"}
    as_good = {"Mean": 13, "Align": 14 - 1, "Merge": 11, "Random": 12, "FOCUS": 11}
    found = {
        name: sum(one.value >= source[one.column] for one in table if one.row == name)
        for name in as_good
    }
    assert found == as_good


@pytest.mark.parametrize("paper", TABLES)
def test_numbers_are_of_cells_tasks_and_metrics_of_the_study(paper):
    configs = [open_study(name).config for name in STUDIES[paper]]
    cells = [cell for config in configs for cell in cells_of(config["cells"], config["aliases"])]
    known = {axis: {getattr(cell, axis) for cell in cells} for axis in CELL}
    aliases = {alias["initializer"] for config in configs for alias in config["aliases"]}
    known["initializer"] |= aliases  # of which tables have rows too
    strange = {
        name for one in numbers(paper) for axis, name in one.cell.items() if name not in known[axis]
    }
    assert strange == ONLY_THERE.get(paper, set())
    tasks = {task for config in configs for task in config["run_tasks"]}
    assert {one.task for one in numbers(paper) if one.task} <= tasks


@pytest.mark.parametrize("paper", TABLES)
def test_a_number_of_a_cell_is_compared_with_a_score_of_its_kind(paper):
    """Only the units of scores: speeds of generated answers are not those of the same text."""
    kinds = {one.metric for one in numbers(paper) if one.task}
    assert not any("speed" in name or "per_second" in name for name in kinds)
    for one in numbers(paper):
        assert bool(one.reason) != bool(one.task)


@pytest.mark.parametrize(("paper", "missing"), [("lowres", 0), ("vocadt", 0), ("salt", 0),
                                                 ("unifyvocab", 12), ("cw2v", 0)])  # fmt: skip
def test_every_number_of_a_cell_has_its_cell_in_the_study(paper, missing):
    """Aliases included: `mean` of Yamaguchi et al. is the cell of `align`."""
    configs = [open_study(name).config for name in STUDIES[paper]]
    names = [
        names
        for config in configs
        for cell in cells_of(config["cells"], config["aliases"])
        for names, _ in names_in_papers(
            {axis: getattr(cell, axis) for axis in CELL}, config["aliases"]
        )
    ]
    without = [
        one
        for one in numbers(paper)
        if one.task and not any(one.cell.items() <= cell.items() for cell in names)
    ]
    assert len(without) == missing, [one.row for one in without]


def test_a_paper_without_numbers_is_refused_before_the_first_job():
    config = read_yaml(ROOT / "config/studies/cw2v-roberta.yaml")
    config["report"] = {"items": [{"item": "published", "compare": ["lowers"]}]}
    message = r"report\.items\[0\]\.compare: 'lowers' is not in config/published"
    with pytest.raises(UserError, match=message):
        resolve(config, load_registries())


def test_the_report_of_a_study_reads_the_file_of_its_paper():
    inputs = open_study("cw2v-roberta").described("build_report", {})["inputs"]
    assert [path.rsplit("/", 1)[-1] for path in inputs["published"]] == ["cw2v.csv"]
