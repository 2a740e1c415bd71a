"""The study of published models: whose entries it takes, and which numbers it compares with."""

import pytest

from lexigraft.cells import is_selected
from lexigraft.errors import UserError
from lexigraft.report.frame import CELL
from lexigraft.report.items import read_items
from lexigraft.report.published import read_published
from lexigraft.yaml_files import read_yaml
from tests.workflow.conftest import open_study
from workflow.config.registries import PUBLISHED, ROOT, resolve


@pytest.fixture(scope="module")
def study():
    return open_study("published")


def compared(study, item):
    """The numbers of an item's tables whose scores the study has, with the sources of the cells."""
    renamed = item.option("stands_for")
    found = {}
    for number in read_published([ROOT / PUBLISHED / f"{item.option('compare')[0]}.csv"]):
        if number.table not in item.option("tables"):
            continue
        sources = []
        for score in number.scores:
            run = study.config["run_tasks"].get(score.task)
            for cell in study.cells if run else ():
                names = {axis: getattr(cell, axis) for axis in CELL}
                if known := renamed.get(cell.source):
                    names |= known.model_dump(exclude_none=True)
                if score.cell.items() <= names.items() and is_selected(cell, run):
                    sources.append(cell.source)
                    break
        if len(sources) == len(number.scores):
            found[number.table, number.row, number.column] = {*sources}
    return found


def test_it_trains_nothing(study):
    assert {(cell.vocabulary, cell.initializer, cell.strategy) for cell in study.cells} == {
        ("source", "none", "none")
    }


def test_every_model_that_a_paper_has_numbers_of_is_compared(study):
    items = [item for item in read_items(study.config["report"]["items"])
             if item.kind == "published"]  # fmt: skip
    counts = {item.name: len(compared(study, item)) for item in items}
    # Tables 10 and 11; six tasks, twice, and two averages of 8 rows
    assert counts == {"vocadt": 120 + 150, "unifyvocab": 2 * 8 * 14}
    for item in items:
        assert {*item.option("stands_for")} <= set().union(*compared(study, item).values())


def test_languages_and_tasks_are_those_of_other_studies(registries):
    config = read_yaml(ROOT / "config/studies/published.yaml")
    del config["budget"]
    vocadt, own = open_study("vocadt").config, resolve(config, registries).config
    for kind, name in (("languages", "madlad-sw"), ("tasks", "en-sw-5-shot")):
        assert own[kind][name] == vocadt[kind][name]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ["vocadd"],
            r"config\.entries_of: 'vocadd' is not in config/studies; did you mean 'vocadt",
        ),
        (["vocadt", "cw2v"], r"cw2v defines sources\.llama-2-7b with other settings"),
    ],
)
def test_studies_that_are_not_there_or_disagree_are_refused(names, message, registries):
    config = read_yaml(ROOT / "config/studies/published.yaml") | {"entries_of": names}
    with pytest.raises(UserError, match=message):
        resolve(config, registries)


def test_an_entry_of_its_own_stands_above_that_of_another_study(registries):
    config = read_yaml(ROOT / "config/studies/published.yaml")
    config["languages"] = {"madlad-sw": {"base": "madlad-id", "name": "Kiswahili"}}
    found = resolve(config, registries).config["languages"]
    assert found["madlad-sw"]["name"] == "Kiswahili"
