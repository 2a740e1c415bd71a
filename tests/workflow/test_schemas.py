"""The schemas of config files for editors."""

import json
from functools import cache

import pytest
from jsonschema import Draft202012Validator

from lexigraft.yaml_files import read_yaml
from workflow.config import schemas
from workflow.config.registries import REGISTRIES, ROOT

FILES = [
    *sorted((ROOT / "config").glob("*.yaml")),
    *sorted((ROOT / "config/studies").glob("*.yaml")),
]
STUDY = {"study": "mine", "cells": [], "run_tasks": {"perplexity": {}}}


@pytest.fixture(scope="module")
def study():
    return Draft202012Validator(schemas.study())


@pytest.fixture(scope="module")
def registries():
    return {kind: Draft202012Validator(schemas.registry(kind)) for kind in REGISTRIES}


def faults(validator, value):
    return [(list(error.absolute_path), error.message) for error in validator.iter_errors(value)]


@cache
def published(path):
    """The schema of a file, which is one itself."""
    schema = json.loads(path.read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_the_files_are_those_of_the_models():
    found = {path: path.read_text("utf-8") for path in schemas.FOLDER.glob("*")}
    assert found == schemas.files(), "run `make config-tables`"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_of_the_project_names_its_schema_and_fits_it(file):
    first, _ = file.read_text("utf-8").split("\n", 1)
    mark, _, place = first.partition("=")
    assert mark == "# yaml-language-server: $schema"
    validator = published((file.parent / place).resolve())
    assert faults(validator, read_yaml(file)) == []


def test_unknown_keys_and_wrong_types_of_a_study_are_seen(study):
    cell = {axis: ["x"] for axis in ("sources", "languages", "vocabularies", "initializers")}
    cell |= {"strategies": ["x"]}
    assert faults(study, STUDY | {"cells": [cell]}) == []
    for wrong, place in (
        ({"cels": []}, []),
        ({"seed": "one"}, ["seed"]),
        ({"cells": [cell | {"seed": [0]}]}, ["cells", 0]),
        ({"strategies": {"s": {"base": "none", "epoch": 2}}}, ["strategies", "s"]),
    ):
        assert [path for path, _ in faults(study, STUDY | {"cells": [cell]} | wrong)] == [place]


def test_entries_of_a_study_give_only_what_differs(study):
    own = {
        "strategies": {"s": {"base": "2x2ls-clm-512", "epochs": 1, "title": "Short"}},
        "sources": {"llama-2-7b": {"resources": {"training_mb": 9000}}},
    }
    assert [
        path for path, _ in faults(study, STUDY | {"cells": []} | own) if path[:1] != ["cells"]
    ] == []


def test_an_entry_of_a_registry_without_a_base_needs_all_its_keys(registries):
    tasks = {"tasks": {"mine": {"base": "translation", "samples": 5}}}
    assert faults(registries["tasks"], tasks) == []
    languages = {"languages": {"mine": {"code": "te"}}}  # without its name
    assert faults(registries["languages"], languages) != []
