"""Phases that train adapters, and what they refuse."""

from pathlib import Path

import pytest
import yaml

from lexigraft.errors import UserError
from lexigraft.training.settings import AdapterSettings, of_new_vocabulary, read_strategy

PHASE = {"trainable": ["adapter"], "length": 512}
ALL = {"trainable": ["all"], "length": 512, "share": 0.5}
REGISTRY = Path(__file__).resolve().parents[2] / "config" / "strategies.yaml"


def registered(name):
    return yaml.safe_load(REGISTRY.read_text())["strategies"][name]


def test_the_registry_holds_the_values_of_vocadt():
    strategy = read_strategy(registered("vocadt"))
    (phase,) = strategy.phases
    assert phase.trainable == ("adapter",) and phase.adapter == AdapterSettings(
        form="dense", entries=256, alpha=0.1
    )
    assert (phase.length, phase.learning_rate, phase.objective) == (512, 2e-6, "clm")
    assert (strategy.batch_sequences, phase.tokens_per_language) == (128, 500_000_000)
    assert (strategy.weight_decay, strategy.warmup, strategy.schedule) == (0.01, 0.01, "cosine")
    assert read_strategy(registered("vocadt-alpha-0")).phases[0].adapter.alpha == 0
    assert read_strategy(registered("vocadt-sparse")).phases[0].adapter.form == "sparse"


def test_alma_follows_the_adapters():
    first, *rest = read_strategy(registered("vocadt-alma")).phases
    alma = read_strategy(registered("alma")).phases
    assert first.adapter == AdapterSettings()
    assert (first.batch_sequences, {phase.batch_sequences for phase in rest}) == (128, {256})
    assert (first.learning_rate, [phase.learning_rate for phase in rest]) == (2e-6, [2e-5, 2e-5])
    assert [(p.trainable, p.data) for p in rest] == [(p.trainable, p.data) for p in alma]


def test_a_phase_that_trains_none_has_none():
    assert read_strategy({"phases": [{**ALL, "share": 1}]}).phases[0].adapter is None
    assert of_new_vocabulary({"phases": [ALL]}) == []
    assert of_new_vocabulary({"phases": [PHASE, ALL]}) == ["adapter"]


@pytest.mark.bad_input(
    "config", "an invalid adapter setting", "rejected with a message that names the key"
)
@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"phases": [ALL, {**PHASE, "share": 0.5}]}, "phases[1].trainable: only the first phase"),
        ({"phases": [{**PHASE, "trainable": ["adapter", "lora"]}]}, "remove the other items"),
        ({"phases": [{**PHASE, "objective": "mtp"}]}, "remove 'mtp'"),
        ({"phases": [{**ALL, "share": 1, "adapter": {}}]}, "trains no adapter; remove 'adapter'"),
        (
            {"phases": [{**PHASE, "adapter": {"form": "thin"}}]},
            "form: 'thin' is not one of 'dense', 'sparse'",
        ),
        ({"phases": [{**PHASE, "adapter": {"alpha": -1}}]}, "adapter.alpha: -1 is not at least 0"),
        ({"phases": [{**PHASE, "adapter": {"entries": 0}}]}, "entries: 0 is not at least 1"),
        (
            {"phases": [{**PHASE, "adapter": {"r": 8}}]},
            "adapter: unknown key 'r'; choose from alpha, entries, form",
        ),
        ({"phases": [PHASE], "lora": {"alpha": 0}}, "lora.alpha: 0 is not above 0"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(settings, named):
    with pytest.raises(UserError) as caught:
        read_strategy(settings)
    assert named in str(caught.value) and "\n" not in str(caught.value)
