"""Items of a report: what a config may ask for, and what is made of it."""

import re
from pathlib import Path

import pytest

from lexigraft.errors import UserError
from lexigraft.report import build
from lexigraft.report.items import DEFAULT, FIGURES, PAGES, TABLES, Item, check_items, read_items
from lexigraft.report.records import read_study
from lexigraft.report.tables.models import Model, models
from workflow.grid import Study

REPOSITORY = Path(__file__).resolve().parents[2]
BLOCK = {"sources": ["m"], "languages": ["te", "el"], "vocabularies": ["source", "big"],
         "initializers": ["none", "align"], "strategies": ["none", "full"]}  # fmt: skip
FRAGMENTATION = {"tokenizers": ["small", "large"], "languages": ["te", "my"]}


def test_every_kind_has_a_module_and_a_caption():
    assert list(build.TABLES) == list(TABLES)
    assert list(build.FIGURES) == list(FIGURES)
    captions = {path.stem for path in (REPOSITORY / "workflow/report").glob("*.rst")}
    assert captions == {*PAGES, *TABLES, *FIGURES, "report", "workflow"}


def test_no_items_are_the_default_ones():
    assert [item.name for item in read_items([])] == list(DEFAULT)


def test_an_item_is_named_after_its_kind_unless_it_has_a_name():
    plain, named = read_items(["results", {"item": "results", "name": "table-1"}])
    assert (plain.kind, plain.name, plain.label) == ("results", "results", "Results")
    assert (named.kind, named.name, named.label) == ("results", "table-1", "Table 1")


def test_where_becomes_names_by_axis():
    (item,) = read_items([{"item": "results", "where": {"languages": ["te", "el"]}}])
    assert item.where == {"language": ("te", "el")}


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["resluts"], "report.items[0]: 'resluts' is not known; did you mean 'results'?"),
        (["speed", "speed"], "report.items[1]: there is a 'speed' already"),
        ([{"item": "fertility", "tasks": ["mt"]}], "report.items[0]: 'fertility' takes no tasks"),
        ([{"item": "speed", "metrics": ["speedup"]}],
         "report.items[0].metrics: 'speedup' is not known; did you mean 'speed_up'?"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_the_users_error(items, message):
    with pytest.raises(UserError, match=re.escape(message)):
        read_items(items)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"where": {"initializers": ["aling"]}},
         ".where.initializers: 'aling' is not of this study; did you mean 'align'?"),
        ({"where": {"sources": ["other"]}}, ".where.sources: 'other' is not of this study; known"),
        ({"tasks": ["translate"]}, ".tasks: 'translate' is not run by this study; did you mean"),
        ({"speed_up_of": "merge"}, ".speed_up_of: 'merge' is not of this study; known are align"),
    ],
)  # fmt: skip
def test_a_name_that_the_study_does_not_have_is_the_users_error(item, message):
    items = read_items([{"item": "results", **item}])
    with pytest.raises(UserError, match=re.escape(f"report.items[0]{message}")):
        check_items(items, [BLOCK], {"translation": {}}, FRAGMENTATION)


def test_the_grid_knows_the_files_of_every_item():
    items = ["recommendation", "results", {"item": "results", "name": "table-5"}, "fertility"]
    study = Study({"study": "s", "results": "r", "cells": [], "report": {"items": items}})
    assert [item.name for item in study.report_items("pages")] == ["recommendation"]
    assert [item.name for item in study.report_items("tables")] == ["results", "table-5"]
    assert [item.name for item in study.report_items("figures")] == ["fertility"]


@pytest.fixture
def two(made_study):
    """Two source models with Source, LAPT, and two initializers of two vocabularies."""
    made_study.settings["reference"] = {"strategy": "full"}
    for source in ("first", "second"):
        for key in (("source", "none", "none"), ("source", "none", "full"), ("big", "mean", "full"),
                    ("big", "align", "full"), ("small", "align", "full")):  # fmt: skip
            made_study.record((source, "te", *key, 0), "mt", "translation", {"chrf": 9.0})
    return read_study(made_study.settings, made_study.inputs)


def test_a_part_keeps_the_baselines_and_drops_the_rest(two):
    where = {"source": ("second",), "vocabulary": ("big",), "initializer": ("align",)}
    part = two.part(Item("results", "t", where=where))
    assert models(part) == [
        Model("second", "source", "none", "none"),
        Model("second", "source", "none", "full"),
        Model("second", "big", "align", "full"),
    ]


def test_a_part_has_the_order_that_was_asked_for(two):
    where = {"vocabulary": ("big",), "initializer": ("align", "mean"), "source": ("first",)}
    names = [model.initializer for model in models(two.part(Item("results", "t", where=where)))]
    assert names == ["none", "none", "align", "mean"]


def test_a_model_that_was_asked_for_is_a_row_without_any_record(two):
    where = {"source": ("first",), "vocabulary": ("small",), "initializer": ("mean",)}
    part = two.part(Item("results", "t", where=where))
    assert Model("first", "small", "mean", "full") in models(part)


def test_a_strategy_that_was_asked_for_is_the_one_of_the_part(two):
    part = two.part(Item("results", "t", where={"strategy": ("other",)}))
    assert part.reference_strategy == "other"
    assert two.part(Item("results", "t")).reference_strategy == "full"


def test_lapt_of_another_strategy_stands_in_for_one_that_was_not_trained(two):
    part = two.part(Item("results", "t", where={"strategy": ("other",), "source": ("first",)}))
    assert [(m.initializer, m.strategy) for m in models(part)] == [
        ("none", "none"),
        ("none", "full"),
    ]


def test_lapt_of_another_strategy_is_no_row_beside_untrained_models(two):
    cases = ((("none",), []), (("other", "none"), []), (("full", "none"), ["full"]))
    for strategies, lapt in cases:
        where = {"strategy": strategies, "source": ("first",)}
        part = two.part(Item("results", "t", where=where))
        found = [m.strategy for m in models(part) if m.baseline and not m.is_source]
        assert found == lapt
