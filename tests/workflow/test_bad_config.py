"""A bad config fails before the first job, in one line that names the key."""

import shutil
from copy import deepcopy
from pathlib import Path

import pytest

from lexigraft import UserError
from lexigraft.evaluation.unspaced_scripts import LONG_CODES, UNSPACED_LANGUAGES
from lexigraft.yaml_files import read_yaml
from tests.workflow.conftest import changed, refused
from tests.workflow.plan import Plan
from workflow.config.checks import check_local_files
from workflow.config.registries import ROOT, load_registries, resolve

TABLE = read_yaml(Path(__file__).with_name("bad_config.yaml"))


def test_the_study_is_accepted_and_completed(full_study, registries):
    study = resolve(deepcopy(full_study), registries)
    check_local_files(study)
    assert study.config["seed"] == 0
    assert study.strategies["short"].learning_rate == 1e-4
    assert study.run_tasks["speed-short"].runs == 1
    assert study.initializers["focused"].auxiliary == {"target": "trained"}


@pytest.mark.bad_input(
    "config",
    "an unknown name, an unknown key, or a value of the wrong type",
    "rejected with a message that names the key and suggests a similar one, or gives the type",
)
@pytest.mark.bad_input(
    "config",
    "a text, a model, a package or a file of vectors that is missing",
    "rejected before the first job, with a message that names the key and the file",
)
@pytest.mark.bad_input(
    "config",
    "cells or aliases whose parts do not fit together",
    "rejected with a message that names the block of cells or the alias",
)
@pytest.mark.bad_input(
    "config",
    "an initializer without what its method reads, or with what it does not read",
    "rejected with a message that names the key, the method and what to specify",
)
@pytest.mark.bad_input(
    "config",
    "invalid settings of training samples or teachers",
    "rejected with a message that names the key",
)
@pytest.mark.bad_input(
    "config",
    "a task whose settings, tests or cells are invalid",
    "rejected with a message that names the key, before any training",
)
@pytest.mark.parametrize(
    "case", [case for cases in TABLE.values() for case in cases], ids=lambda case: case["error"]
)
def test_a_bad_config_is_named_by_its_key(full_study, registries, case):
    changes = {key: value for key, value in case.items() if key != "error"}
    assert case["error"] in refused(changed(full_study, changes), registries)


@pytest.mark.bad_input(
    "text",
    "a folder of texts, or a data set, that contains the results folder",
    "a one-line error message names both before the first job",
)
def test_inputs_that_contain_the_results_are_refused(full_study, registries, texts):
    data_set = {"loader": "datasets", "name": str(texts), "split": "train", "column": "text"}
    for text in ({"loader": "text", "paths": [str(texts)]}, data_set):
        config = changed(full_study, {"languages/telugu/text": text})
        check_local_files(resolve(config | {"results": f"{texts}-results"}, registries))
        message = refused(config | {"results": f"{texts}/deep/results"}, registries)
        assert message.startswith(f"{texts}: the folder contains the results folder")


def test_the_default_study_is_valid(registries):
    assert resolve(read_yaml(ROOT / "config/config.yaml"), registries).name == "default"
    assert set(LONG_CODES.values()) == set(UNSPACED_LANGUAGES)


@pytest.mark.bad_input(
    "config",
    "a registry file without its top-level key",
    "rejected with a message that names the file; a key without entries is an empty registry",
)
def test_a_registry_has_its_entries_below_its_name(tmp_path):
    shutil.copytree(ROOT / "config", tmp_path, dirs_exist_ok=True)
    (tmp_path / "files.yaml").write_text("files: # none\n")
    assert load_registries(tmp_path)["files"] == {}
    (tmp_path / "files.yaml").write_text("file:\n  mine: {path: a, by_hand: b}\n")
    with pytest.raises(UserError, match=r"files\.yaml: has no mapping 'files'"):
        load_registries(tmp_path)


def test_settings_of_the_machine_are_part_of_no_job(miniature):
    plain = Plan(miniature)
    settings = {"precision": "float32", "pass_tokens": "9", "save_minutes": 0}
    study = Plan(miniature | {"machine": settings})
    jobs = [study.job(job.rule, job.wildcards) for job in study.jobs().values()]
    assert jobs == [plain.job(job.rule, job.wildcards) for job in plain.jobs().values()]
    assert study.environment().keys() - plain.environment().keys() == {
        "LEXIGRAFT_PRECISION",
        "LEXIGRAFT_PASS_TOKENS",
        "LEXIGRAFT_SAVE_MINUTES",
    }
