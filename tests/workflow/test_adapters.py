"""Strategies that train adapters, in a study: only for cells with a vocabulary of their own."""

from copy import deepcopy

import pytest

from lexigraft import UserError
from workflow.config.registries import load_registries, resolve


@pytest.fixture
def config(miniature):
    return deepcopy(miniature)


def test_baselines_have_no_recipe_to_train(config):
    config["cells"][0]["strategies"] = ["none", "vocadt"]
    with pytest.raises(UserError) as error:
        resolve(config, load_registries())
    assert str(error.value) == (
        "config.cells[0].strategies: 'vocadt' trains 'adapter', which requires a new vocabulary; "
        "use another strategy for the baselines"
    )


def test_cells_with_a_new_vocabulary_take_every_form_of_adapter(config):
    strategies = ["vocadt", "vocadt-sparse", "vocadt-alpha-0"]
    config["cells"][1]["strategies"] = strategies
    config["cells"][1]["initializers"] = ["vocadt-start", "align"]
    study = resolve(config, load_registries()).config
    adapters = [study["strategies"][name]["phases"][0].get("adapter") for name in strategies]
    assert adapters == [
        None,
        {"form": "sparse", "entries": 256, "alpha": 0.1},
        {"form": "dense", "entries": 256, "alpha": 0},
    ]
    assert study["initializers"]["vocadt-start"]["options"] == {"without_pieces": "random"}
