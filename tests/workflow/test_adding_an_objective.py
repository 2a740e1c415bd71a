"""A user who follows the section "An objective" of docs/extend.md has a new objective."""

import json
import re

import pytest
import yaml

from tests.workflow.conftest import REPOSITORY, copy_project

FILE = "lexigraft/training/objectives/smoothed.py"


def code_blocks() -> tuple[str, str]:
    """The Python and the YAML block of the section."""
    page = (REPOSITORY / "docs" / "extend.md").read_text(encoding="utf-8")
    section = page.partition("\n## An objective\n")[2].partition("\n## ")[0]
    assert FILE in section
    python, study = re.findall(r"```\w+\n(.*?)```", section, flags=re.DOTALL)
    return python, study


@pytest.fixture(scope="module")
def project(tmp_path_factory, miniature):
    """A copy of the project with the file and the strategy of the page."""
    python, study = code_blocks()
    copy = copy_project(tmp_path_factory.mktemp("objective") / "project")
    (copy.folder / FILE).write_text(python, encoding="utf-8")
    [(name, strategy)] = yaml.safe_load(study)["strategies"].items()
    short = miniature["strategies"]["short"] | strategy
    cells = {**miniature["cells"][1], "initializers": ["align"], "strategies": [name]}
    copy.config = {**miniature, "cells": [cells], "strategies": {name: short}}
    return copy


def test_snakemake_trains_a_cell_with_it(project):
    run = project.snakemake("--until", "train")
    assert run.returncode == 0, run.stderr[-3000:]
    [log] = project.folder.glob("results/training/tiny/telugu/expand-50/align/smoothed/*/log.jsonl")
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert sum(line["event"] == "step" for line in lines) > 1
    [card] = log.parent.glob("card.json")
    phase = json.loads(card.read_text(encoding="utf-8"))["job"]["settings"]["phases"][0]
    assert (phase["objective"], phase["smoothing"]) == ("smoothed", 0.2)
