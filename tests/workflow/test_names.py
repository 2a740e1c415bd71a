"""A name means one thing: what a study may say under a registry's name, and `base` and `title`."""

from copy import deepcopy

import pytest

from lexigraft.report.names import display_titles, initializer_name, strategy_name, task_name
from lexigraft.yaml_files import read_yaml
from tests.workflow.conftest import refused
from workflow.config.registries import REGISTRIES, ROOT, resolve

STUDIES = [ROOT / "config/config.yaml", *sorted((ROOT / "config/studies").glob("*.yaml"))]


@pytest.fixture
def config(miniature):
    return deepcopy(miniature)


@pytest.mark.bad_input(
    "config",
    "an entry with a name from the registry but other settings",
    "rejected with a message that says how to give it a name of its own",
)
def test_a_name_of_the_registry_with_other_settings_is_refused_with_what_to_do(config, registries):
    config["strategies"]["2x2ls-clm-512"] = {"epochs": 1, "warmup": 0.05}
    assert refused(config, registries) == (
        "strategies.2x2ls-clm-512: the registry has an entry of this name with other settings "
        "(epochs), but all results of one name must have the same settings; use another name, with "
        "`base: 2x2ls-clm-512` and only the keys that differ (only resources may differ)"
    )


def test_the_same_settings_and_other_resources_may_stand_under_the_name(config, registries):
    config["sources"]["llama-2-7b"] = {"resources": {"training_mb": 90000}}
    config["strategies"]["none"] = {"phases": []}
    config["strategies"]["2x2ls-clm-512"] = {"resources": {"time": 2}}
    study = resolve(config, registries).config
    assert study["sources"]["llama-2-7b"]["resources"]["training_mb"] == 90000
    assert study["strategies"]["2x2ls-clm-512"]["resources"] == {"time": 2, "memory": 1}
    config["sources"]["llama-2-7b"]["kind"] = "masked"
    assert "other settings (kind)" in refused(config, registries)


def test_a_base_may_have_a_base_and_keys_of_an_entry_replace_theirs(config, registries):
    config["strategies"] |= {
        "shorter": {"base": "brief", "sentences": 5},
        "brief": {"base": "2x2ls-clm-512", "epochs": 1, "sentences": 9},
    }
    strategies = resolve(config, registries).config["strategies"]
    assert [strategies[name]["sentences"] for name in ("brief", "shorter")] == [9, 5]
    assert strategies["shorter"]["epochs"] == 1
    assert strategies["shorter"]["phases"] == strategies["2x2ls-clm-512"]["phases"]


def test_titles_are_what_the_report_shows_and_no_settings(config, registries):
    config["initializers"] = {"own": {"base": "focus", "title": "focus"}}
    config["strategies"]["brief"] = {"base": "2x2ls-clm-512", "title": "2x2ls-clm-512"}
    config["tasks"]["few"] = {"base": "belebele-3-shot", "title": "belebele-2-shot", "shots": 2}
    study = resolve(config, registries).config
    assert "title" not in study["initializers"]["own"]
    assert initializer_name("own") == "Own"
    with display_titles(study["titles"]):
        assert initializer_name("own") == "FOCUS"
        assert strategy_name("brief") == "2x2ls-clm-512"
        assert task_name("few", "multiple_choice") == "Belebele 2-shot"
        assert task_name("translation", "translation") == "MT"
    assert initializer_name("own") == "Own"


def test_a_name_means_the_same_in_all_studies_of_this_repository(registries):
    found = {}
    for path in STUDIES:
        config = read_yaml(path)
        config.pop("budget", None)  # whose results have a folder of their own
        study = resolve(config, registries).config
        for kind in REGISTRIES:
            for name, entry in study[kind].items():
                effect = {key: value for key, value in entry.items() if key != "resources"}
                first, same = found.setdefault((kind, name), (path.name, effect))
                assert effect == same, f"{kind}.{name} in {first} and {path.name}"
