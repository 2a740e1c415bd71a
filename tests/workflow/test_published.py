"""config/published: the papers' numbers are consistent, and belong to cells of the studies."""

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
ONLY_IN_PAPERS = {"unifyvocab": {"zett"}}
# Instead of tasks: numbers of tokens, of fitted initializers and of trained cells.
COUNTS = {"vocabulary", "initialization", "training"}

numbers = cache(lambda paper: read_published([FOLDER / f"{paper}.csv"]))


def average_of(number, printed):
    """The numbers of its table that a printed average is the mean of."""
    if of_rows := re.fullmatch(r"Avg \((\d+) \w+\)", number.row):  # VocADT: of the first rows
        column = [candidate for candidate in printed if candidate.column == number.column]
        return [candidate for candidate in column if "Avg" not in candidate.row][: int(of_rows[1])]
    before, _, after = number.column.partition("Avg")
    return [
        candidate
        for candidate in printed
        if candidate.row == number.row
        and "Avg" not in candidate.column
        and candidate.column.startswith(before)
        and candidate.column.endswith(after)
    ]


@pytest.mark.parametrize("paper", TABLES)
def test_every_number_of_a_table_is_recorded(paper):
    counted = {}
    for number in numbers(paper):
        counted[number.table] = counted.get(number.table, 0) + 1
    assert counted == TABLES[paper]
    places = [(number.table, number.row, number.column) for number in numbers(paper)]
    assert len({*places}) == len(places)


@pytest.mark.parametrize(("paper", "count"), [("vocadt", 114), ("salt", 58), ("unifyvocab", 108)])
def test_a_printed_average_is_the_mean_of_its_numbers(paper, count):
    tables = {}
    for number in numbers(paper):
        tables.setdefault(number.table, []).append(number)
    averages = [
        number for number in numbers(paper) if re.search(r"Avg(?!\.)", number.row + number.column)
    ]
    assert len(averages) == count
    for number in averages:
        parts = average_of(number, tables[number.table])
        assert len(parts) in (3, 4, 5, 6, 8, 9, 10, 11, 18), number
        # It is compared with the mean of the scores that these are compared with.
        assert number.scores == tuple(score for part in parts for score in part.scores)
        mean = sum(part.value for part in parts) / len(parts)
        # The parts are rounded too.
        assert abs(mean - number.value) <= number.rounding + parts[0].rounding + 1e-9, number


def of_the_same(number):
    return tuple((*sorted(score.cell.items()), score.task, score.metric) for score in number.scores)


@pytest.mark.parametrize("paper", TABLES)
def test_a_number_that_two_tables_print_is_the_same_in_both(paper):
    printed = {}
    for number in numbers(paper):
        if not number.reason:
            printed.setdefault(of_the_same(number), []).append(number)
    several = [group for group in printed.values() if len(group) > 1]
    differing = {
        (*(number.table for number in group), group[0].row)
        for group in several
        for candidate in group[1:]
        if abs(candidate.value - group[0].value) > 0.99 * (candidate.rounding + group[0].rounding)
    }
    assert differing == {"lowres": {("5", "12", "Llama3 LAPT")}}.get(paper, set())


def test_as_many_models_are_as_good_as_the_source_as_the_paper_states():
    """§7.1: of 20 languages and tasks; Align's summaries in Thai are illegible."""
    table = [number for number in numbers("lowres") if number.table == "1"]
    source = {number.column: number.value for number in table if number.row == "Source"}
    as_good = {"Mean": 13, "Align": 14 - 1, "Merge": 11, "Random": 12, "FOCUS": 11}
    found = {
        name: sum(number.value >= source[number.column] for number in table if number.row == name)
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
    unknown = {
        name
        for number in numbers(paper)
        for score in number.scores
        for axis, name in score.cell.items()
        if name not in known[axis]
    }
    assert unknown == ONLY_IN_PAPERS.get(paper, set())
    tasks = {task for config in configs for task in config["run_tasks"]}
    compared = {score.task for number in numbers(paper) for score in number.scores}
    assert compared - {""} <= tasks | COUNTS


@pytest.mark.parametrize("paper", TABLES)
def test_a_number_of_a_cell_is_compared_with_a_score_of_its_kind(paper):
    """Speeds are those of generated answers, not of the same text."""
    kinds = {score.metric for number in numbers(paper) for score in number.scores}
    speeds = {name for name in kinds if "per_second" in name}
    assert all(name.startswith("answer_tokens") for name in speeds)
    for number in numbers(paper):
        assert bool(number.reason) != all(score.task for score in number.scores)


@pytest.mark.parametrize(("paper", "missing"), [("lowres", 0), ("vocadt", 0), ("salt", 0),
                                                 ("unifyvocab", 14), ("cw2v", 0)])  # fmt: skip
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
        number
        for number in numbers(paper)
        if not number.reason
        and not all(
            any(score.cell.items() <= cell.items() for cell in names) for score in number.scores
        )
    ]
    assert len(without) == missing, [number.row for number in without]


def test_a_paper_without_numbers_is_refused_before_the_first_job():
    config = read_yaml(ROOT / "config/studies/cw2v-roberta.yaml")
    config["report"] = {"items": [{"item": "published", "compare": ["lowers"]}]}
    message = r"report\.items\[0\]\.compare: 'lowers' is not in config/published"
    with pytest.raises(UserError, match=message):
        resolve(config, load_registries())
