"""A user who follows the sections "A task" and "A metric" of docs/extend.md has both."""

import json
import re

import pytest
import yaml

from tests.workflow.conftest import REPOSITORY, copy_project

SECTIONS = {"A task": "evaluation/tasks", "A metric": "evaluation/metrics"}


def parts_of(title: str) -> tuple[str, str, dict]:
    """The file of a section, its code, and the part of a study."""
    page = (REPOSITORY / "docs" / "extend.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    [file] = re.findall(rf"`(lexigraft/{SECTIONS[title]}/\w+\.py)`:\n", section)
    code, study = re.findall(r"```\w+\n(.*?)```", section, flags=re.DOTALL)
    return file, code, yaml.safe_load(study)


@pytest.fixture(scope="module")
def project(tmp_path_factory, miniature):
    """A copy of the project with the files of both sections, and a study of one untrained cell."""
    copy = copy_project(tmp_path_factory.mktemp("task") / "project")
    config = {**miniature, "cells": miniature["cells"][:1], "tasks": {}, "run_tasks": {}}
    for title in SECTIONS:
        file, code, study = parts_of(title)
        (copy.folder / file).write_text(code, encoding="utf-8")
        for key in ("tasks", "run_tasks"):
            config[key] |= study[key]
    config["tasks"]["translation-lengths"] |= {"samples": 2, "max_new_tokens": 4}
    copy.config = config
    return copy


@pytest.fixture(scope="module")
def records(project):
    """The records of a real run, by task."""
    run = project.snakemake("--until", "evaluate")
    assert run.returncode == 0, run.stderr[-3000:]
    files = project.folder.glob("results/evaluation/**/run-0/record.json")
    return {file.parents[1].name: json.loads(file.read_text(encoding="utf-8")) for file in files}


def test_a_cell_is_evaluated_on_the_task(records):
    record = records["token-accuracy"]
    assert record["kind"] == "token_accuracy"
    assert 0 <= record["metrics"]["token_accuracy"] <= 1
    assert record["details"]["tokens"] > 20


def test_outputs_are_scored_by_the_metric(records, project):
    record = records["translation-lengths"]
    assert list(record["metrics"])[:3] == ["chrf", "chrf_sentence_mean", "length_ratio"]
    assert record["details"]["length_ratio_signature"] == "ratio of characters"
    [file] = project.folder.glob("results/**/translation-lengths/run-0/predictions.jsonl")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    ratios = [len(row["output"]) / len(row["reference"]) for row in rows]
    assert [row["length_ratio"] for row in rows] == ratios
