"""What re-runs after a change, and what must not: dry runs of the real Snakefile."""

import os
import shutil

import pytest

from lexigraft.report.items import DEFAULT
from tests.workflow.conftest import Checkout, copy_project

TELUGU = "telugu expand-50"
TASKS = ("perplexity", "translation", "speed")


def trained(cell: str) -> set[str]:
    """Messages of a cell's training and of its tasks."""
    return {f"Training {cell}", *(f"Evaluating {task} of {cell}" for task in TASKS)}


ALIGN = trained(f"{TELUGU} align short seed 0")
MULTIVARIATE = trained(f"{TELUGU} multivariate short seed 0")
GREEK = trained("greek expand-50 align short seed 0")
BASELINE = {f"Evaluating {task} of telugu source none none seed 0" for task in TASKS} | {
    "Training telugu source none none seed 0"
}


def initializing(language: str, name: str, fit: str = "all-seeds") -> str:
    return f"Initializing {language} expand-50 by {name} ({fit})"


@pytest.fixture(scope="module")
def finished(tmp_path_factory, miniature) -> Checkout:
    """A study whose outputs are all there and up to date."""
    copy = copy_project(tmp_path_factory.mktemp("finished") / "project")
    copy.config = miniature
    # The corpus files belong to this study alone, since a test edits them.
    own = copy.folder / "texts"
    own.mkdir()

    def with_own_texts(config: dict) -> None:
        for name, language in config["languages"].items():
            for file in (language["text"]["paths"][0], language["parallel"]["path"]):
                shutil.copy2(file, own)
            language["text"]["paths"] = [f"texts/{name}.txt"]
            language["parallel"]["path"] = f"texts/{name}.tsv"

    copy.change(with_own_texts)
    copy.pretend_finished()
    return copy


@pytest.fixture
def study(finished, tmp_path) -> Checkout:
    """A copy of the finished study, to change and plan."""
    shutil.copytree(finished.folder, tmp_path / "project")
    return Checkout(tmp_path / "project")


def test_nothing_runs_in_a_copy_whose_files_are_all_new_to_the_clock(study):
    for part in ("Snakefile", "workflow", "config", "lexigraft", "scripts"):
        for path in [study.folder / part, *(study.folder / part).rglob("*")]:
            os.utime(path)
    assert study.planned() == set()


def test_a_strategys_setting_reruns_its_cells_and_what_reads_them(study):
    def change(config):
        config["strategies"]["short"]["learning_rate"] = 3e-4

    study.change(change)
    assert study.planned() == ALIGN | MULTIVARIATE | GREEK | {"report"}


def test_an_initializers_option_reruns_that_initializer_and_what_follows(study):
    def change(config):
        config["initializers"] = {"multivariate": {"options": {"covariance_scale": 0.5}}}

    study.change(change)
    expected = MULTIVARIATE | {initializing("telugu", "multivariate", "seed-0"), "report"}
    assert study.planned() == expected


def test_the_code_of_one_initializer_reruns_that_initializer_and_what_follows(study):
    path = study.folder / "lexigraft/initialization/methods/align.py"
    path.write_text(path.read_text() + "\n\nADDED = 1\n")
    expected = {initializing("telugu", "align"), initializing("greek", "align"), "report"}
    assert study.planned() == ALIGN | GREEK | expected


def test_a_docstring_a_comment_and_an_unused_registry_entry_rerun_nothing(study):
    study.edit("lexigraft/initialization/methods/align.py", '"""', '"""Said otherwise. ')
    study.edit("lexigraft/provenance.py", '"""', '# A comment.\n"""Said otherwise. ')
    study.edit("config/vocabularies.yaml", "expand-1k:", "expand-2k:")
    assert study.planned() == set()


def test_more_gpus_train_no_cell_again(study):
    def change(config):
        config["sources"]["tiny"]["resources"] = {"training_gpus": 4, "training_sharded": True}

    study.change(change)
    assert study.planned() == {"report"}  # which lists the sources' settings


def test_code_that_every_stage_uses_reruns_every_stage(study):
    study.edit("lexigraft/provenance.py", "def write_card(", "ADDED = 1\n\n\ndef write_card(")
    planned = study.planned()
    assert planned >= ALIGN | MULTIVARIATE | GREEK | BASELINE
    assert "Preparing the source model tiny" in planned


@pytest.mark.parametrize("items", [["results", "perplexity"], [*DEFAULT, "significance"]])
def test_a_table_less_or_more_reruns_the_report_alone(study, items):
    study.change(lambda config: config["report"].update(items=items))
    assert study.planned() == {"report"}


def test_the_reports_code_reruns_the_report_alone(study):
    path = study.folder / "lexigraft/report/build.py"
    path.write_text(path.read_text() + "\n\nADDED = 1\n")
    assert study.planned() == {"report"}


def test_one_task_reruns_alone_when_its_code_changes(study):
    path = study.folder / "lexigraft/evaluation/tasks/translation.py"
    path.write_text(path.read_text() + "\n\nADDED = 1\n")
    planned = study.planned()
    assert all(job == "report" or job.startswith("Evaluating translation") for job in planned)
    assert len(planned) == 5


def test_a_corpus_file_reruns_its_language_and_no_other(study):
    path = study.folder / "texts/greek.txt"
    path.write_text(path.read_text() + "Μια πρόταση ακόμη, που δεν ήταν εκεί.\n")
    planned = study.planned()
    assert GREEK | {"Preparing the texts of greek", initializing("greek", "align")} <= planned
    assert not any("telugu" in job for job in planned)


def test_a_new_language_runs_its_own_jobs_and_the_report(study):
    def change(config):
        config["languages"]["modern"] = config["languages"]["greek"]
        config["cells"].append({**config["cells"][2], "languages": ["modern"]})

    study.change(change)
    planned = study.planned()
    assert "Preparing the texts of modern" in planned
    assert all(job == "report" or " modern" in job for job in planned)


def test_a_new_seed_trains_again_but_fits_only_what_draws(study):
    def change(config):
        config["cells"][1]["seeds"] = [0, 1]

    study.change(change)
    cells = (f"{TELUGU} {name} short seed 1" for name in ("align", "multivariate"))
    expected = set().union(*(trained(cell) for cell in cells))
    drawn = initializing("telugu", "multivariate", "seed-1")
    assert study.planned() == expected | {drawn, "report"}


def test_a_cell_that_is_left_out_reruns_the_report_alone(study):
    def change(config):
        config["cells"][1]["initializers"] = ["align"]

    study.change(change)
    assert study.planned() == {"report"}
