"""A bad config fails before the first job, in one line that names the key."""

import shutil

import pytest

from lexigraft import UserError
from lexigraft.evaluation.unspaced_scripts import LONG_CODES, UNSPACED_LANGUAGES
from tests.workflow.plan import Plan
from workflow.config.checks import check_local_files
from workflow.config.registries import ROOT, load_registries, resolve


@pytest.fixture
def config(miniature):
    from copy import deepcopy

    return deepcopy(miniature)


def refused(config, registries) -> str:
    with pytest.raises(UserError) as error:
        check_local_files(resolve(config, registries))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_miniature_study_is_accepted_and_completed(config, registries):
    study = resolve(config, registries).config
    assert study["seed"] == 0
    assert study["strategies"]["short"]["learning_rate"] == 1e-4
    assert study["run_tasks"]["speed-short"]["runs"] == 1


def test_an_entry_keeps_what_it_does_not_change_of_its_base(config, registries):
    config["vocabularies"] = {"mine": {"base": "expand-50", "merges": "append"}}
    study = resolve(config, registries).config
    changed = study["vocabularies"]["mine"]
    assert (changed["new_tokens"], changed["merges"]) == (50, "append")
    assert study["vocabularies"]["expand-50"]["merges"] == "continued"
    assert "base" not in changed


@pytest.mark.bad_input(
    "config",
    "an unknown initializer, strategy or language",
    "rejected with a message that suggests a similar name",
)
def test_an_unknown_initializer_is_named_with_the_one_that_was_meant(config, registries):
    config["cells"][1]["initializers"] = ["aling"]
    message = refused(config, registries)
    assert "config.cells[1].initializers" in message
    assert "did you mean 'align'?" in message


@pytest.mark.bad_input(
    "config",
    "an unknown key",
    "rejected before the first job, with a message that suggests a similar key",
)
def test_an_unknown_key_is_named(config, registries):
    config["strategies"]["short"]["learning_rat"] = 1e-4
    message = refused(config, registries)
    assert "strategies.short: unknown key 'learning_rat'; did you mean 'learning_rate'?" in message


@pytest.mark.bad_input(
    "config",
    "a value of the wrong type",
    "rejected with a message that names the key and the expected type",
)
def test_a_wrong_type_is_named(config, registries):
    config["strategies"]["short"]["epochs"] = "two"
    assert "strategies.short.epochs: 'two' is not a number" in refused(config, registries)


@pytest.mark.bad_input(
    "config",
    "a text file that does not exist",
    "rejected before the first job, with a message that names the key and the file",
)
def test_a_missing_text_file_is_named(config, registries):
    config["languages"]["greek"]["text"]["paths"] = ["no/such/file.txt"]
    message = refused(config, registries)
    assert "languages.greek.text" in message
    assert "no/such/file.txt" in message


@pytest.mark.bad_input(
    "config",
    "a source without a location, or a source folder without a model",
    "rejected with a message that names the key",
)
def test_a_source_without_a_place_is_refused(config, registries):
    config["sources"]["tiny"] = {}
    assert "sources.tiny: needs exactly one of" in refused(config, registries)


@pytest.mark.bad_input(
    "config",
    "a source without a location, or a source folder without a model",
    "rejected with a message that names the key",
)
def test_a_source_folder_without_a_model_is_refused(config, registries, tmp_path):
    config["sources"]["tiny"] = {"folder": str(tmp_path)}
    assert f"sources.tiny.folder: {tmp_path} contains no config.json" in refused(config, registries)


def test_a_source_folder_may_lie_below_the_home_folder(config, registries, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").touch()
    config["sources"]["tiny"] = {"folder": "~/model"}
    check_local_files(resolve(config, registries))


@pytest.mark.bad_input(
    "hostile",
    "names that are paths, hidden files, options or commands",
    "rejected with a message that names the key",
)
def test_a_name_that_would_leave_its_folder_is_refused(config, registries):
    config["cells"][0]["sources"] = ["../../etc"]
    assert "config.cells[0].sources[0]" in refused(config, registries)


@pytest.mark.bad_input(
    "config",
    "a new vocabulary without an initializer",
    "rejected with a message that names the block of cells",
)
def test_a_vocabulary_without_an_initializer_is_refused(config, registries):
    config["cells"][1]["initializers"] = ["none"]
    message = refused(config, registries)
    assert "config.cells[1]: vocabulary 'source' and initializer 'none' can only" in message


@pytest.mark.bad_input(
    "config",
    "an unknown text loader, or one without its required keys",
    "rejected with a message that lists the loaders or names the missing key",
)
def test_an_unknown_loader_says_which_there_are(config, registries):
    config["languages"]["greek"]["text"] = {"loader": "xml", "paths": ["x"]}
    assert "languages.greek.text: needs a loader" in refused(config, registries)


@pytest.mark.bad_input(
    "config",
    "an unknown or missing option of an initializer",
    "rejected with a message that names the option",
)
def test_an_unknown_option_of_an_initializer_is_named(config, registries):
    config["initializers"] = {"mine": {"base": "align", "options": {"window": 3}}}
    config["cells"][1]["initializers"] = ["mine"]
    message = refused(config, registries)
    assert "initializers.mine" in message
    assert "window" in message


@pytest.mark.bad_input(
    "config",
    "a translation task without parallel text",
    "rejected with a message that names the missing key",
)
def test_translation_needs_a_parallel_text(config, registries):
    config["languages"]["greek"]["english"] = config["languages"]["greek"]["text"]
    config["languages"]["greek"]["parallel"] = None
    assert "languages.greek.parallel: missing" in refused(config, registries)


@pytest.mark.bad_input(
    "config",
    "an unknown engine, or an engine for a task that does not generate text",
    "rejected with a message that lists the engines or the kinds of task that have one",
)
def test_only_tasks_that_generate_texts_choose_an_engine(config, registries):
    config["tasks"] = {"mine": {"base": "translation", "engine": "vllm"}}
    config["run_tasks"] = {"mine": {}}
    assert resolve(config, registries).config["tasks"]["mine"]["engine"] == "vllm"
    config["tasks"] = {"mine": {"base": "perplexity", "engine": "vllm"}}
    assert "tasks.mine.engine: only tasks of kind" in refused(config, registries)
    config["tasks"] = {"mine": {"base": "translation", "engine": "tgi"}}
    assert "tasks.mine.engine: 'tgi' is not one of" in refused(config, registries)


@pytest.mark.bad_input(
    "config",
    "an unknown key or an invalid value in the settings of a task",
    "rejected with a message that names the key, before any training",
)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base": "perplexity", "heldout_sentence": 5}, "unknown key 'heldout_sentence'; did you"),
        ({"base": "perplexity", "window": 1}, ".window: 1 is not at least 2"),
        ({"base": "translation", "samples": "ten"}, ".samples: 'ten' is not a whole number"),
        ({"base": "translation", "beams": 0}, ".beams: 0 is not at least 1"),
        ({"base": "speed", "prompts": 6, "batch_sizes": [4]}, ".prompts: 6 is not a multiple of"),
        ({"base": "speed", "batch_sizes": 8}, ".batch_sizes: 8 is not a list"),
        ({"base": "xquad", "normalization": "f1"}, "normalization: 'f1' is not one of 'mlqa', 's"),
    ],
)
def test_a_wrong_setting_of_a_task_is_named(config, registries, settings, message):
    config["tasks"] = {"mine": settings}
    config["run_tasks"] = {"mine": {}}
    assert refused(config, registries).startswith("tasks.mine")
    assert message in refused(config, registries)


def test_the_default_study_is_valid(registries):
    from lexigraft.yaml_files import read_yaml

    assert resolve(read_yaml(ROOT / "config/config.yaml"), registries).name == "default"


@pytest.mark.bad_input(
    "config",
    "phases whose shares do not add up to 1",
    "rejected with a message that gives their sum",
)
def test_phases_whose_shares_do_not_add_up_are_refused(config, registries):
    phases = config["strategies"]["short"]["phases"]
    config["strategies"]["short"]["phases"] = [{**phases[0], "share": 0.4}] * 2
    assert refused(config, registries).startswith("strategies.short.phases: their shares add up")


@pytest.mark.bad_input(
    "config",
    "an invalid report item: its kind, name, option or task",
    "rejected with a message that names the item and what it accepts",
)
@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"name": "table-5"}, "config.report.items[0]: 'item' is missing"),
        ({"item": "results", "name": "a/b"}, "config.report.items[0].name: 'a/b' does not match"),
        ({"item": "results", "title": 3}, "config.report.items[0].title: 3 is not text"),
        ({"item": "results", "where": ["tiny"]}, "config.report.items[0].where: ['tiny'] is not a"),
        ({"item": "results", "taks": ["speed"]}, "has no option 'taks'; did you mean 'tasks'?"),
        ({"item": "results", "batch_size": "4"}, "batch_size: '4' is not a whole number"),
        ({"item": "results", "tasks": ["sped"]}, "'sped' is not run by this study"),
    ],
)
def test_a_wrong_item_of_the_report_is_named(config, registries, item, message):
    config["report"]["items"] = [item]
    assert message in refused(config, registries)


@pytest.mark.bad_input(
    "config",
    "a package that is not in packages.yaml, for a text, a model or fonts",
    "rejected with a message that names the key and suggests a similar name",
)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: c["languages"]["greek"].update(
                english={"loader": "html", "package": "kolibry", "page": "a.html"}
            ),
            "languages.greek.english.package: 'kolibry' is not known; did you mean 'kolibri'?",
        ),
        (
            lambda c: c["report"].update(fonts={"package": "fonds", "folder": "static"}),
            "config.report.fonts.package: 'fonds' is not known",
        ),
    ],
)
def test_an_unknown_package_is_named(config, registries, change, message):
    change(config)
    assert message in refused(config, registries)


@pytest.mark.bad_input(
    "config",
    "a task restricted to names, or a combination of names, that no cell has",
    "rejected with a message that names the key and suggests a similar name",
)
@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({"sources": ["tinny"]}, "perplexity.sources: 'tinny' is not known; did you mean 'tiny'"),
        ({"initializers": ["merge"]}, "config.run_tasks.perplexity: no cell of the study matches"),
        (
            {"strategies": ["shrot"]},
            "perplexity.strategies: 'shrot' is not known; did you mean 'short'",
        ),
        ({"seeds": [1]}, "config.run_tasks.perplexity: no cell of the study matches"),
        ({"seeds": []}, "perplexity.seeds: [] is too short"),
        (
            {"languages": ["greek"], "initializers": ["multivariate"]},
            "config.run_tasks.perplexity: no cell of the study matches all of its selections",
        ),
    ],
)
def test_a_task_that_would_be_run_on_no_cell_is_refused(config, registries, run, message):
    config["run_tasks"]["perplexity"] = run
    assert message in refused(config, registries)


@pytest.mark.bad_input(
    "config",
    "a three-letter language code with a two-letter equivalent that scores depend on",
    "rejected with a message that gives the shorter code",
)
def test_a_code_of_three_letters_that_has_a_shorter_one_is_refused(config, registries):
    config["languages"]["greek"]["code"] = "tha"
    assert refused(config, registries) == "languages.greek.code: 'tha' has a shorter code; use th"
    config["languages"]["greek"]["code"] = "shn"  # Shan has none
    resolve(config, registries)
    assert set(LONG_CODES.values()) == set(UNSPACED_LANGUAGES)


@pytest.mark.bad_input(
    "config",
    "a user-defined file whose URL does not match its path",
    "rejected with a message that names the key",
)
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"path": "a/{code}", "url": "https://x.org/{lang}"}, ".url: '{lang}' is not in the path"),
        ({"path": "{a}/{a}", "url": "https://x.org/{a}"}, ".path: '{a}' occurs twice"),
        ({"path": "{a}", "url": "https://x.org/{a}", "sha256": "0" * 64}, ".sha256: is for one"),
    ],
)
def test_a_file_whose_address_does_not_follow_from_its_path_is_refused(
    config, registries, entry, message
):
    config["files"] = {"mine": entry}
    assert f"files.mine{message}" in refused(config, registries)


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


@pytest.mark.bad_input(
    "config",
    "a language without any English text",
    "rejected with a message that names the missing key",
)
def test_a_language_without_any_english_is_refused(config, registries):
    config["run_tasks"] = {"perplexity": {}}
    config["languages"]["greek"]["parallel"] = None
    assert "languages.greek.english: missing" in refused(config, registries)


@pytest.mark.bad_input(
    "config",
    "an invalid `machine` setting",
    "rejected with a message that names the key and its valid values",
)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pass_tokens": "many"}, "pass_tokens: 'many' is not a whole number (tokens of a"),
        ({"pass_tokens": "0"}, "pass_tokens: 0 is not at least 1"),
        ({"precision": "float16"}, "precision: 'float16' is not one of 'float32', 'bfloat16'"),
        ({"tokens": 1}, "unknown key 'tokens'"),
    ],
)
def test_a_wrong_setting_of_the_machine_is_named(config, registries, settings, message):
    config["machine"] = settings
    assert message in refused(config, registries)


@pytest.mark.bad_input(
    "config",
    "an optimizer that is not installed or does not support sharding",
    "rejected with a message that says what to install or change",
)
def test_an_optimizer_that_cannot_be_had_is_named(config, registries, monkeypatch):
    config["strategies"]["short"]["optimizer"] = "adamw-8bit"
    config["sources"]["tiny"]["resources"] = {"training_gpus": 2, "training_sharded": True}
    for installed, message in ((None, "pip install bitsandbytes"), (True, "training_sharded: f")):
        monkeypatch.setattr("lexigraft.training.settings.find_spec", lambda _, i=installed: i)
        found = refused(config, registries)
        assert found.startswith("strategies.short.optimizer: adamw-8bit") and message in found
    # GPUs for the whole model always share it.
    config["sources"]["tiny"]["resources"] = {"full_training_gpus": 2}
    config["strategies"]["short"]["phases"][0]["trainable"] = ["all"]
    assert "training_sharded: false" in refused(config, registries)


def test_settings_of_the_machine_are_part_of_no_job(config, registries):
    plain = Plan(config)
    config["machine"] = {"precision": "float32", "pass_tokens": "9", "save_minutes": 0}
    study = Plan(config)
    jobs = [study.job(job.rule, job.wildcards) for job in study.jobs().values()]
    assert jobs == [plain.job(job.rule, job.wildcards) for job in plain.jobs().values()]
    assert study.environment().keys() - plain.environment().keys() == {
        "LEXIGRAFT_PRECISION",
        "LEXIGRAFT_PASS_TOKENS",
        "LEXIGRAFT_SAVE_MINUTES",
    }
