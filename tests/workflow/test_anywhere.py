"""The workflow runs from any folder, and as a module of another Snakefile."""

import copy
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from tests import preloaded_python
from tests.conftest import run_command
from tests.workflow.conftest import REPOSITORY, copy_project, open_study
from workflow.study import in_repository

CORPUS = "results/corpus/telugu/card.json"


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    """A clone in a folder whose name has a space."""
    return copy_project(tmp_path_factory.mktemp("anywhere") / "my clones" / "lexigraft").folder


@pytest.fixture
def folder(tmp_path, miniature) -> Path:
    """A folder of the user's, with a space in its name, a config and the texts that it names."""
    folder = tmp_path / "my work"
    config = relative(miniature, folder)
    write(folder / "my-study.yaml", yaml.safe_dump(config, allow_unicode=True))
    return folder


def relative(config: dict, folder: Path) -> dict:
    """One language's cells and task, texts and source model below the folder, named relative."""
    config = copy.deepcopy(config)
    config["cells"] = config["cells"][:2]
    config["run_tasks"] = {"perplexity": {}}
    config["report"]["items"] = ["results"]
    (folder / "texts").mkdir(parents=True)
    for entry in config["languages"].values():
        for place in (*entry["text"]["paths"], entry["parallel"]["path"]):
            shutil.copy2(place, folder / "texts")
        entry["text"]["paths"] = [f"texts/{Path(place).name}" for place in entry["text"]["paths"]]
        entry["parallel"]["path"] = f"texts/{Path(entry['parallel']['path']).name}"
    shutil.copytree(config["sources"]["tiny"]["folder"], folder / "models" / "tiny")
    config["sources"]["tiny"]["folder"] = "models/tiny"
    return config


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def run(folder: Path, *arguments: str | Path, python: str | None = None, succeeds: bool = True):
    """Snakemake in a folder, with nothing in the environment that says where lexigraft is."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    result = run_command(
        [
            python or preloaded_python.python(),
            "-m",
            "snakemake",
            "--cores",
            "2",
            *map(str, arguments),
        ],
        cwd=folder,
        env={**environment, "HF_HUB_OFFLINE": "1"},
    )
    output = result.stdout + result.stderr
    assert (result.returncode == 0) is succeeds, output
    return output


def study_of(repository: Path) -> tuple[str | Path, ...]:
    return "--snakefile", repository / "Snakefile", "--configfile", "my-study.yaml"


def as_module(repository: Path, folder: Path, more: str = "", prefix: str = "") -> None:
    """A Snakefile of the user's own that uses all rules, and then what else it says."""
    write(
        folder / "Snakefile",
        f'configfile: "my-study.yaml"\n\nmodule lexigraft:\n    snakefile:\n'
        f'        "{repository}/Snakefile"\n    config:\n        config\n\n'
        f"use rule * from lexigraft as {prefix}*\n\n{more}",
    )


def files(folder: Path) -> dict[str, int]:
    return {
        str(file): file.stat().st_mtime_ns
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


# ---- any folder ---------------------------------------------------------------------------------


def test_a_study_runs_whole_in_another_folder_and_leaves_the_repository_alone(repository, folder):
    before = files(repository)
    run(folder, *study_of(repository))
    assert (folder / "results/report/miniature/report.html").is_file()
    assert sorted(entry.name for entry in folder.iterdir()) == [
        ".snakemake", "models", "my-study.yaml", "results", "texts"
    ]  # fmt: skip
    assert files(repository) == before
    assert "Nothing to be done" in run(folder, *study_of(repository))


def test_the_default_study_and_its_packages_are_planned_where_snakemake_is_started(
    repository, tmp_path
):
    every = ("--quiet", "host", "--dry-run")
    plan = run(tmp_path, "--snakefile", repository / "Snakefile", *every)
    assert "Missing output files: .cache/packages/" in plan
    assert "Missing output files: results/" in plan
    assert str(repository / "results") not in plan


def test_the_profile_beside_the_snakefile_applies_by_itself(repository, folder):
    plan = run(folder, *study_of(repository), "--dry-run")
    assert f"workflow specific profile {repository / 'profiles/default'}" in plan
    # It makes a plan a table of jobs on one page.
    assert re.search(r"^train +\d+$", plan, re.MULTILINE)
    assert "Reason: " not in plan and len(plan.splitlines()) < 60


@pytest.mark.parametrize("content", [None, "raise AssertionError('not lexigraft')\n"])
def test_a_folder_named_workflow_of_the_users_own_is_not_taken_for_ours(
    repository, folder, content
):
    write(folder / "workflow/config/checks.py", "raise AssertionError('not lexigraft')\n")
    write(folder / "workflow/study.py", "raise AssertionError('not lexigraft')\n")
    write(folder / "config/languages.yaml", "not: lexigraft's\n")
    if content:
        write(folder / "workflow/__init__.py", content)
    run(folder, CORPUS, *study_of(repository), python=sys.executable)
    assert (folder / CORPUS).is_file()


def test_a_second_clone_runs_its_own_code_with_the_environment_of_the_first(repository, folder):
    """The default profile imports the package that the environment has installed, before that."""
    clone = folder / "second clone"
    shutil.copytree(repository, clone)
    write(clone / "lexigraft/cells.py", "raise AssertionError('the second clone')\n")
    plan = run(folder, *study_of(clone), "--dry-run", succeeds=False)
    assert "the second clone" in plan


# ---- as a module --------------------------------------------------------------------------------


def test_a_module_under_another_name_makes_what_a_users_rule_reads(repository, folder):
    """A user's rule keeps its name, its shell and its environment."""
    more = f"""
rule prepare_corpus:
    default_target: True
    input:
        "{CORPUS}",
    output:
        "own.txt",
    shell:
        "echo ${{{{PYTHONPATH-unset}}}} $- $(set -o | grep pipefail) > {{output}}"
"""
    as_module(repository, folder, more, prefix="lexigraft_")
    output = run(folder, "lexigraft_prepare_source", succeeds=False)
    assert "wildcards" in output  # the rule is known by that name
    run(folder)
    path, options, *pipefail = (folder / "own.txt").read_text("utf-8").split()
    assert path == "unset"
    assert {"e", "u"} <= set(options)
    assert pipefail == ["pipefail", "on"]


def test_what_is_checked_before_a_run_can_be_called_for_a_module(repository, folder):
    handlers = ("onstart", "onsuccess", "onerror")
    more = "".join(f"{name}:\n    lexigraft.{name}()\n\n" for name in handlers)
    as_module(repository, folder, more, prefix="lexigraft_")
    source = "results/source/tiny/card.json"
    run(folder, source)
    (folder / "texts/telugu.tsv").unlink()
    output = run(folder, CORPUS, succeeds=False)
    assert "texts/telugu.tsv" in output
    assert not (folder / CORPUS).exists()


def test_a_module_under_another_name_says_what_a_run_replaces(repository, folder):
    as_module(repository, folder, "onstart:\n    lexigraft.onstart()\n", prefix="lexigraft_")
    config = yaml.safe_load((folder / "my-study.yaml").read_text("utf-8"))
    config["cells"][0]["strategies"] = ["scored"]
    config["strategies"]["scored"] = {"base": "none", "curve": {"sentences": 4}}
    write(folder / "my-study.yaml", yaml.safe_dump(config, allow_unicode=True))
    cell = "results/training/tiny/telugu/source/none/scored/seed-0/card.json"
    assert "replaces up to" not in run(folder, cell)
    config["strategies"]["scored"]["curve"]["sentences"] = 6
    write(folder / "my-study.yaml", yaml.safe_dump(config, allow_unicode=True))
    assert "replaces up to 1 finished jobs" in run(folder, cell)


# ---- paths of the repository --------------------------------------------------------------------


def test_the_metrics_environment_is_that_of_the_repository_unless_the_folder_has_one(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    python = Path(".venv-metrics/bin/python")
    assert open_study("salt").metrics_python == str(REPOSITORY / python)
    write(tmp_path / python, "")
    assert open_study("salt").metrics_python == str(python)


def test_paths_of_the_repository_are_relative_in_it_and_absolute_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    assert in_repository("config/prompts") == "config/prompts"
    monkeypatch.chdir(tmp_path)
    assert in_repository("config/prompts") == str(REPOSITORY / "config/prompts")
