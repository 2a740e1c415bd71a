"""Studies that have a base: what they take over, and what the papers' own code changes."""

from dataclasses import astuple

import pytest

from lexigraft.errors import UserError
from lexigraft.report.items import read_items
from lexigraft.yaml_files import read_yaml
from tests.workflow.conftest import open_study
from workflow.config import registries as config_registries
from workflow.config.checks import check_local_files
from workflow.config.registries import ROOT, STUDIES, load_registries, resolve, with_base

AS_PUBLISHED = sorted(path.stem for path in STUDIES.glob("*-as-published*.yaml"))
BLOCK = {
    "sources": ["stories15m"],
    "languages": ["te-kolibri"],
    "vocabularies": ["expand-100"],
    "initializers": ["mean", "align", "merge"],
    "strategies": ["none", "lora-clm-512"],
}
BASE = {
    "study": "base",
    "title": "Base",
    "cells": [BLOCK, BLOCK | {"initializers": ["random"]}],
    "run_tasks": {"perplexity": {"runs": 2, "strategies": ["none"]}, "translation": {}},
    "strategies": {"longer": {"base": "lora-clm-512", "epochs": 4}},
    "report": {
        "reference_strategy": "lora-clm-512",
        "items": [
            "recommendation",
            {"item": "perplexity", "where": {"initializers": ["mean", "align"]}},
            {"item": "results", "name": "table-1", "title": "mean", "tasks": ["perplexity"]},
            {"item": "results", "name": "table-2", "tasks": ["translation"]},
        ],
    },
}


@pytest.fixture
def based(monkeypatch):
    """A function that completes keys of a study by `BASE`."""
    monkeypatch.setattr(config_registries, "_read_study", lambda name, where: BASE)
    return lambda **keys: with_base({"study": "mine", "base": "base", **keys})


def test_a_study_takes_over_what_it_does_not_give(based):
    study = based(title="Mine", run_tasks={"perplexity": {"runs": 3}})
    assert (study["study"], study["title"]) == ("mine", "Mine")
    assert study["cells"] == BASE["cells"]
    assert study["run_tasks"] == {
        "perplexity": {"runs": 3, "strategies": ["none"]},
        "translation": {},
    }
    # Entries are found by their name: they are those of the base.
    assert study["entries_of"] == ["base"] and "strategies" not in study


def test_names_are_replaced_by_one_by_several_or_by_none(based):
    study = based(
        replace={
            "mean": "mean-as-published",
            "align": ["align", "merge"],
            "random": [],
            "lora-clm-512": "longer",
            "translation": [],
            "perplexity": "perplexity-windows",
        }
    )
    (block,) = study["cells"]  # a block of which no initializer is left is none
    assert block["initializers"] == ["mean-as-published", "align", "merge"]
    assert block["strategies"] == ["none", "longer"]
    assert [*study["run_tasks"]] == ["perplexity-windows"]
    recommendation, perplexity, results = study["report"]["items"]  # without that of no task
    assert study["report"]["reference_strategy"] == "longer"
    assert perplexity["where"] == {"initializers": ["mean-as-published", "align", "merge"]}
    # Kinds, names and titles of items are no entries.
    assert (recommendation["item"], perplexity["item"]) == ("recommendation", "perplexity")
    assert (results["name"], results["title"]) == ("table-1", "mean")


def test_items_are_those_of_the_base_by_their_names_or_new_ones(based):
    own = {"item": "speed", "name": "table-3"}
    changed = {"item": "perplexity", "metrics": ["perplexity"]}
    other = {"item": "strategies", "name": "table-2"}  # of another kind than that of the base
    given = ["table-1", own, "fragmentation", changed, other]
    items = based(report={"items": given})["report"]["items"]
    _, perplexity, table_1, _ = BASE["report"]["items"]
    assert items == [table_1, own, "fragmentation", perplexity | changed, other]


def test_an_unknown_base_is_named():
    config = {"study": "mine", "base": "lowers"}
    with pytest.raises(UserError, match=r"config\.base: 'lowers' is not in config/studies; did"):
        resolve(config, load_registries())


@pytest.mark.parametrize("name", AS_PUBLISHED)
def test_cells_without_a_replaced_name_are_those_of_the_base(name):
    """They have the same path in the results, and so are computed once."""
    own = read_yaml(STUDIES / f"{name}.yaml")
    study, base = open_study(name), open_study(own["base"])
    assert study.config["results"] == base.config["results"]
    replaced = {*own["replace"]}
    agreeing = {cell for cell in base.cells if not replaced & {*map(str, astuple(cell))}}
    assert agreeing
    # A miniature has a part of the cells.
    assert agreeing & {*study.cells} if "cells" in own else agreeing <= {*study.cells}


@pytest.mark.parametrize("name", [name for name in AS_PUBLISHED if not name.endswith("mini")])
def test_the_report_is_the_paper(name):
    own = read_yaml(STUDIES / f"{name}.yaml")
    report = with_base(own)["report"]
    of_base = with_base(read_yaml(STUDIES / f"{own['base']}.yaml"))["report"]
    of_paper = {
        item.name
        for item in read_items(of_base["items"])
        if item.title.startswith(("Table", "Figure"))
    }
    assert of_paper <= {item.name for item in read_items(report["items"])}


@pytest.mark.parametrize("name", [name for name in AS_PUBLISHED if name.endswith("mini")])
def test_a_miniature_has_its_data_and_what_its_study_changes(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    study = open_study(name)
    check_local_files(study)
    methods = [
        {open_study(each).initializers[cell.initializer].method for cell in open_study(each).cells
         if cell.initializer != "none"}
        for each in (name, name.removesuffix("-mini"))
    ]  # fmt: skip
    assert methods[0] <= methods[1]
