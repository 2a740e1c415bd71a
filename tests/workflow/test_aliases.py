"""Initializers that are others in some vocabularies: one cell under two names."""

from copy import deepcopy

import pytest

from lexigraft.errors import UserError
from tests.workflow.plan import Plan
from workflow.config.registries import resolve


@pytest.fixture
def config(miniature):
    config = deepcopy(miniature)
    config["cells"] = [
        {"sources": ["tiny"], "languages": ["greek"], "vocabularies": ["one", "two"],
         "initializers": ["mean", "align"], "strategies": ["short"]},
    ]  # fmt: skip
    config["vocabularies"] = {
        name: {"mode": "expand", "new_tokens": 50, "merges": "append", "marks": "apart"}
        for name in ("one", "two")
    }
    config["report"] = {
        "items": [{"item": "results", "where": {"initializers": ["mean", "align"]}}], "fonts": None,
    }  # fmt: skip
    return config


def cells(config, registries, **alias):
    config["aliases"] = [{"initializer": "mean", "same_as": "align", **alias}]
    study = Plan(config)
    assert len([job for job in study.jobs().values() if job.rule == "train"]) == len(study.cells)
    return {(cell.vocabulary, cell.initializer) for cell in study.cells}


def test_cells_of_an_alias_have_the_vocabularies_of_the_alias(config, registries):
    assert cells(config, registries, vocabularies=["one"]) == {
        ("one", "align"), ("two", "mean"), ("two", "align"),
    }  # fmt: skip
    assert cells(config, registries, vocabularies=["one"], sources=["tiny"]) == {
        ("one", "align"), ("two", "mean"), ("two", "align"),
    }  # fmt: skip
    config["sources"]["other"] = config["sources"]["tiny"]
    assert len(cells(config, registries, vocabularies=["one"], sources=["other"])) == 4


def test_an_alias_has_cells_without_cells_of_its_original(config, registries):
    config["cells"][0]["initializers"] = ["mean"]
    config["report"]["items"] = ["results"]
    assert cells(config, registries, vocabularies=["one", "two"]) == {
        ("one", "align"), ("two", "align"),
    }  # fmt: skip
    config["report"]["items"] = [{"item": "results", "where": {"initializers": ["align"]}}]
    study = Plan(config)
    job = study.described("build_report", {})
    assert {"mean", "align"} <= job["settings"]["study"]["initializers"].keys()


@pytest.mark.bad_input("config", "an invalid alias", "rejected with a message that names the alias")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"initializer": "meen"}, "config.aliases[0].initializer: 'meen' is not known"),
        ({"same_as": "random"}, "config.aliases[0].same_as: 'random' draws random numbers"),
        ({"vocabularies": ["three"]}, "config.aliases[0].vocabularies: 'three' is not known"),
        ({"sources": ["big"]}, "config.aliases[0].sources: 'big' is not known"),
        (
            {"same_as": "mean"},
            "config.aliases[0].same_as: 'mean' is itself an alias for vocabulary 'one'",
        ),
    ],
)
def test_an_alias_that_cannot_be_is_refused(config, registries, change, message):
    alias = {"initializer": "mean", "same_as": "align", "vocabularies": ["one"]}
    config["aliases"] = [alias | change]
    with pytest.raises(UserError) as error:
        resolve(config, registries)
    assert message in str(error.value)


def test_a_task_only_for_an_alias_is_refused(config, registries):
    config["aliases"] = [{"initializer": "mean", "same_as": "align", "vocabularies": ["one"]}]
    (task,) = list(config["run_tasks"])[:1]
    config["run_tasks"] = {task: {"initializers": ["mean"]}}
    with pytest.raises(UserError, match=f"run_tasks.{task}.initializers: 'mean' is an alias"):
        resolve(config, registries)
