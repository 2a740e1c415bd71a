"""The package that pip installs: what it asks for."""

import re
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from lexigraft.errors import UserError
from tests.conftest import REPOSITORY
from tests.test_house import PACKAGES
from workflow.config.checks import check_local_files
from workflow.config.registries import resolve

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
# Installed by tools, or asked for by what imports them.
NOT_RUN = {"hatchling", "editables"}


def pins(name: str) -> dict[str, str]:
    lines = (line.split("#")[0].strip() for line in (REPOSITORY / "envs" / name).open())
    return {normal(one.split("==")[0]): one.split("==")[1] for one in lines if one}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(*extras: str) -> dict[str, Requirement]:
    lines = [*PROJECT["dependencies"]]
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    found = {normal(one.name): one for one in map(Requirement, lines)}
    return {name: one for name, one in found.items() if name != "lexigraft"}


# ---- ranges -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "lock"),
    [
        *((one, "main.lock") for one in requirements("workflow", "metrics").values()),
        *((Requirement(one), "docs.lock") for one in PROJECT["optional-dependencies"]["docs"]),
    ],
    ids=str,
)
def test_a_range_admits_the_version_that_is_tested_and_has_an_end(wanted, lock):
    tested = pins(lock)[normal(wanted.name)]
    assert wanted.specifier.contains(tested), f"{wanted} and {tested}"
    assert not wanted.specifier.contains("9999"), f"{wanted} has no upper bound"
    assert not wanted.specifier.contains("0"), f"{wanted} has no lower bound"


def test_what_is_pinned_by_hand_is_what_the_package_asks_for():
    asked = set(requirements("workflow", "metrics"))
    assert set(pins("main.txt")) - NOT_RUN <= asked
    of_docs = PROJECT["optional-dependencies"]["docs"]
    assert set(pins("docs.txt")) == {normal(Requirement(one).name) for one in of_docs}


def test_python_versions_are_those_of_the_classifiers():
    named = {one.rsplit(" ", 1)[1] for one in PROJECT["classifiers"] if "Python :: 3." in one}
    assert named == {"3.11", "3.12", "3.13"}
    allowed = SpecifierSet(PROJECT["requires-python"])
    assert all(allowed.contains(version) for version in named)
    assert not allowed.contains("3.10")


def test_where_fasttext_is_missing_only_studies_that_need_it_stop(
    miniature, monkeypatch, tmp_path, registries
):
    """As on Python 3.13, for which it has no wheel."""
    from lexigraft.auxiliary import language_files

    monkeypatch.setattr(language_files, "find_spec", lambda _: None)
    check_local_files(resolve(miniature, registries))
    block = miniature["cells"][1] | {"initializers": ["focus"]}
    with pytest.raises(UserError, match="needs fastText, which is not installed"):
        check_local_files(resolve(miniature | {"cells": [block]}, registries))
    with pytest.raises(UserError, match=r"vectors\.bin"):
        language_files.check_word_vectors(tmp_path / "vectors.bin", "vectors.bin")


def imported(folder: str) -> set[str]:
    """Names of the packages that the modules of a folder import anywhere."""
    import ast

    found = set()
    for file in (REPOSITORY / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
    return found - sys.stdlib_module_names - {"lexigraft", "workflow"}


# Of the environments of learned metrics and of llama.cpp, of the extra `gpu`, a user's own; and a
# part of pydantic.
OTHERS = {"comet", "bleurt_pytorch", "xllamacpp", "vllm", "wandb", "pydantic_core"}


def test_every_package_that_is_imported_is_asked_for_where_it_is():
    from importlib.metadata import packages_distributions

    distributions = packages_distributions()
    library = {
        name
        for folder in PACKAGES[: PACKAGES.index("evaluation")]
        for name in imported(f"lexigraft/{folder}")
    }
    every = imported("lexigraft") | imported("workflow") | imported("scripts")
    for names, extras in ((library, ()), (every, ("workflow", "metrics"))):
        asked = set(requirements(*extras))
        for name in names - OTHERS:
            known = {normal(one) for one in distributions.get(name, [name])}
            assert known & asked, f"{name} ({known}) is imported and not asked for"
