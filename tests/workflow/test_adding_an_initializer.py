"""docs/adding-an-initializer.md, followed to the letter, adds an initializer."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.workflow.conftest import REPOSITORY, copy_project

PAGE = REPOSITORY / "docs" / "adding-an-initializer.md"


def parts() -> tuple[str, str]:
    """The text about the repository, and the text about a file outside it."""
    inside, outside = PAGE.read_text(encoding="utf-8").split("## A method outside the repository")
    return inside, outside


def blocks() -> dict[str, str]:
    """Each code block for the repository, by the file that the text before it names last."""
    found = {}
    split = re.split(r"```\w+\n(.*?)```", parts()[0], flags=re.DOTALL)
    for text, code in zip(split[::2], split[1::2], strict=False):
        (*_, file) = re.findall(r"`((?:lexigraft|config|tests)/[\w./]+)`", text)
        found[file] = code
    return found


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """A copy of the project with what the page says put where it says."""
    checkout = copy_project(tmp_path_factory.mktemp("followed") / "project")
    for file in ("pyproject.toml", "tests/conftest.py", "tests/initialization/conftest.py"):
        (checkout.folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / file, checkout.folder / file)
    for file, code in blocks().items():
        path = checkout.folder / file
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(before + code, encoding="utf-8")
    return checkout


def test_the_test_on_the_page_passes(followed):
    (test,) = [file for file in blocks() if file.startswith("tests/")]
    done = subprocess.run(
        [followed.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
        cwd=followed.folder, env={**os.environ, "PYTHONPATH": str(followed.folder)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert "2 passed" in done.stdout


def test_a_study_can_name_the_method(followed, miniature):
    name = re.search(r"^  ([\w-]+):", blocks()["config/initializers.yaml"], re.MULTILINE)[1]
    followed.config = {**miniature, "cells": miniature["cells"][:1]}
    followed.change(
        lambda config: config["cells"].append(
            {**miniature["cells"][1], "initializers": [name, "mean"]}
        )
    )
    planned = followed.planned()
    assert any(name in job for job in planned)


def test_the_method_works_in_a_file_outside_the_repository(tmp_path):
    (method,) = [code for file, code in blocks().items() if file.startswith("lexigraft/")]
    named, used = re.findall(r"```python\n(.*?)```", parts()[1], flags=re.DOTALL)
    header, name = named.splitlines()
    method = method.replace("    title =", f"{name}\n    title =", 1)
    assert header in method
    (tmp_path / "my_methods.py").write_text(method, encoding="utf-8")
    code = f"import lexigraft\n{used}print(type(initializer).__name__, initializer.power)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "LengthMean 2.0\n"
