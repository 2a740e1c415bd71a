"""A study whose plug-in follows the section "In a file of your own" of docs/extend.md."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests import preloaded_python
from tests.conftest import run_command
from tests.workflow.conftest import REPOSITORY, copy_project

PAGE = (REPOSITORY / "docs" / "extend.md").read_text(encoding="utf-8")
CELL = "tiny/telugu/expand-50/first-piece/smoothed/seed-0"


def section(title: str) -> tuple[str, dict[str, str]]:
    """The text of a section of the page, and its first code block in each language."""
    text = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return text, dict(reversed(re.findall(r"```(\w+)\n(.*?)```", text, flags=re.DOTALL)))


def registration(kind: str) -> str:
    """The line of the page that registers a kind, with its import."""
    text, _ = section("In a file of your own")
    module, call = re.search(
        rf"^\| {kind} \| `([\w.]+)\.(\w+\(.*?\))`", text, re.MULTILINE
    ).groups()
    return f"import {module}\n{module}.{call}\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory, miniature):
    """The project with two plug-ins: an initializer and an objective; a loader."""
    _, blocks = section("In a file of your own")
    _, objective = section("An objective")
    _, loader = section("A format of text")
    smoothed = objective["python"].replace(
        '    title = "smoothed CLM"', '    name = "smoothed"\n    title = "smoothed CLM"'
    )
    copy = copy_project(tmp_path_factory.mktemp("plugin") / "project")
    files = {
        "my_methods.py": [blocks["python"], smoothed, registration("objective")],
        "subtitles.py": [loader["python"], registration("format of text")],
    }
    for name, code in files.items():
        (copy.folder / name).write_text("\n".join(code), encoding="utf-8")
    telugu = miniature["languages"]["telugu"]
    [path] = telugu["text"]["paths"]
    lines = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    captions = [f"{n}\n00:00:01\n{line}" for n, line in enumerate(lines)]
    (copy.folder / "film.srt").write_text("\n".join(captions), encoding="utf-8")
    short = (
        miniature["strategies"]["short"]
        | yaml.safe_load(objective["yaml"])["strategies"]["smoothed"]
    )
    copy.config = {
        **miniature,
        **yaml.safe_load(blocks["yaml"]),
        "plugins": [*files],
        "cells": [
            {
                **miniature["cells"][1],
                "initializers": ["first-piece", "align"],
                "strategies": ["smoothed"],
            }
        ],
        "strategies": {"smoothed": short},
        "run_tasks": {"perplexity": {}},
        "languages": {"telugu": telugu | {"text": {"loader": "subtitles", "path": "film.srt"}}},
    }
    return copy


def versions(project, card: str) -> dict:
    return json.loads((project.folder / "results" / card).read_text())["job"]["versions"]


def test_a_run_uses_the_kinds_of_the_plugin_and_names_them(project):
    run = project.snakemake()
    assert run.returncode == 0, run.stderr[-3000:]
    assert "my_methods.py: initializer first-piece, objective smoothed" in run.stderr
    assert "subtitles.py: loader subtitles" in run.stderr
    trained = versions(project, f"training/{CELL}/card.json")
    assert re.fullmatch(r"1, plug-in [0-9a-f]{16}", trained["objective smoothed"])
    assert "plug-in" in versions(project, "corpus/telugu/card.json")["loader subtitles"]
    assert [*project.folder.glob("results/report/miniature/*.html")]


def test_an_edited_plugin_makes_only_its_own_results_stale(project):
    assert project.planned() == set()
    project.edit("my_methods.py", "A token without pieces", "A new token without pieces")
    planned = project.planned()
    fitted = {job for job in planned if job.startswith("Initializing")}
    assert any("with first-piece" in job for job in fitted), planned
    assert not any("with align" in job for job in fitted)


def test_one_file_can_define_every_kind_of_the_page(tmp_path):
    titles = {
        "vectors of tokens": "Vectors of tokens",
        "objective": "An objective",
        "format of text": "A format of text",
        "task": "A task",
        "metric": "A metric",
    }
    code = [section("In a file of your own")[1]["python"]]
    for kind, title in titles.items():
        code += [section(title)[1]["python"], registration(kind)]
    code += [section("A table or a figure")[1]["python"]]
    file = tmp_path / "every_kind.py"
    text = "\n".join(code).replace("    title = ", '    name = "smoothed"\n    title = ')
    file.write_text(text, encoding="utf-8")
    load = f"from lexigraft.plugins import load_plugins; print(load_plugins(['{file}'])[0])"
    (tmp_path / "load.py").write_text(load, encoding="utf-8")
    loaded = run_command([preloaded_python.python(), str(tmp_path / "load.py")])
    assert loaded.stdout.partition(": ")[2].strip().split(", ") == [
        "initializer first-piece",
        "auxiliary characters",
        "objective smoothed",
        "task token_accuracy",
        "metric length_ratio",
        "loader subtitles",
        "report item training_times",
    ], loaded.stderr
