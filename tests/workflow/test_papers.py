"""docs/papers: what each paper states and what its study does, compared with the study itself."""

import re
from collections.abc import Mapping
from functools import cache

import pytest
import yaml

from lexigraft.errors import UserError
from lexigraft.report.items import read_items
from lexigraft.yaml_files import read_yaml
from tests.workflow.conftest import open_study
from workflow.config.registries import ROOT
from workflow.papers import PAPERS, paper_table, published_table, read_paper

NAMES = sorted(path.stem for path in PAPERS.glob("*.yaml"))
ROWS = [(paper, row) for paper in NAMES for row in read_paper(paper)[1]]
NUMBERS = r"\d+[a-z]?(?:(?:, | and | to )(?:\d+[a-z]?))*"
ROW = {
    "row": "LoRA",
    "source": "§4.3",
    "paper": "rank 8",
    "here": "rank 16",
    "verdict": "differs",
    "reason": "memory",
}

opened = cache(open_study)
PROMPTS = {path.stem: read_yaml(path) for path in (ROOT / "config/prompts").glob("*.yaml")}


@cache
def config_of(study):
    return opened(study).config | {"prompts": PROMPTS}


def value_at(config, key):
    """The value at `strategies.one.phases.0.length` in a configuration; names may have dots."""
    if not key:
        return config
    if isinstance(config, Mapping):
        names = [name for name in config if f"{key}.".startswith(f"{name}.")]
        assert names, f"there is no {key} in {', '.join(config)}"
        name = max(names, key=len)
        return value_at(config[name], key[len(name) + 1 :])
    index, _, inner_key = key.partition(".")
    return value_at(config[int(index)], inner_key)


def numbers_of(name, kind):
    """`Tables 1, 3a and 5 to 7` has the tables 1, 3, 5, 6 and 7."""
    numbers = set()
    for text in re.findall(rf"\b{kind}s? ({NUMBERS})", name):
        for first, last in re.findall(r"(\d+)[a-z]?(?: to (\d+))?", text):
            numbers |= {*range(int(first), int(last or first) + 1)}
    return numbers


CHECKS = [
    (row.row, check.study or row.study or paper, check)
    for paper, row in ROWS
    for check in row.check
]


@pytest.mark.parametrize(
    ("row", "study", "check"),
    CHECKS,
    ids=lambda value: getattr(value, "key", None) or str(value)[:40],
)
def test_a_setting_or_a_number_of_cells_is_that_of_the_study(row, study, check):
    if check.key:
        assert value_at(config_of(study), check.key) == check.value
    if check.cells is not None:
        cells = [vars(cell) for cell in opened(study).cells]
        found = [
            cell
            for cell in cells
            if all(cell[axis] in names for axis, names in check.cells.items())
        ]
        assert len(found) == check.count


@pytest.mark.parametrize("paper", NAMES)
def test_items_are_those_of_the_study(paper):
    for row in read_paper(paper)[1]:
        if row.items:
            report = config_of(row.study or paper)["report"]
            known = {item.name for item in read_items(report["items"])}
            assert {*row.items} <= known, row.row


@pytest.mark.parametrize("paper", NAMES)
def test_every_table_and_figure_of_the_paper_is_drawn_or_accounted_for(paper):
    content, rows = read_paper(paper)
    for kind, published in (("Table", content.tables), ("Figure", content.figures)):
        covered = set()
        for row in rows:
            numbers = numbers_of(row.row, kind)
            assert numbers <= {*published}, row.row
            assert not numbers or row.items or row.reason, row.row
            covered |= numbers
        assert covered == {*published}, kind


def written(folder, **changed):
    content = {"tables": [1], "figures": [], "rows": [ROW | {"row": "first"}, ROW | changed]}
    (folder / "one.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"reason": None}, r"one\.yaml: row 2 \(LoRA\): 'reason' is missing: verdict 'differs'"),
        (
            {"verdict": "same", "reason": None},
            "verdict 'same' needs one, or items or a check that show",
        ),
        ({"as_published": "rank 4"}, r"'check' is missing: 'as_published' needs one"),
        ({"verdict": "equal"}, r"one\.yaml: row 2 \(LoRA\)\.verdict: 'equal' is not one of 'same'"),
        ({"row": "first"}, r"one\.yaml: row 2 \(first\): an earlier row has this name; rename one"),
        ({"here": " "}, r"one\.yaml: row 2 \(LoRA\)\.here: ' ' does not match"),
    ],
)
def test_a_wrong_row_is_named_with_its_file(tmp_path, changed, message):
    written(tmp_path, **changed)
    with pytest.raises(UserError, match=message):
        read_paper("one", tmp_path)


def test_the_table_counts_verdicts_and_escapes_what_ends_a_cell(tmp_path):
    written(tmp_path, paper="a | b", here=16, verdict="same", items=["table-1"], study="other")
    counted, _, *table = paper_table("one", tmp_path).split("\n")
    assert counted == "2 rows: 1 the same, 1 different, 0 missing."
    assert table[-1] == (r"| LoRA | §4.3 | a \| b | 16 | same | memory; `table-1` of `other` |")


def test_what_differs_as_published_is_a_table(tmp_path):
    written(tmp_path, as_published="rank 4", check={"key": "strategies.s.lora.r", "value": 16})
    header, _, *lines = published_table("one", tmp_path).split("\n")
    assert header == "| | the paper and its code | as published here | with our improvements |"
    assert lines == ["| LoRA | rank 8 | rank 4 | rank 16 |"]
