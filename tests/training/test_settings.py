"""Strategies are read from plain data; what is wrong in them is said in one line."""

from pathlib import Path

import pytest
import yaml

from lexigraft.errors import UserError
from lexigraft.training.settings import (
    AdapterSettings,
    Lora,
    read_strategy,
)

PHASE = {"trainable": ["embeddings", "head", "lora"], "length": 512}
ADAPTED = {"trainable": ["adapter"], "length": 512}
REGISTRY = Path(__file__).resolve().parents[2] / "config" / "strategies.yaml"
ENTRIES = {
    name: settings
    for name, settings in yaml.safe_load(REGISTRY.read_text())["strategies"].items()
    if "base" not in settings  # these the workflow resolves
}


def test_defaults_are_those_of_table_6_of_the_paper():
    strategy = read_strategy({"phases": [PHASE]})
    (phase,) = strategy.phases
    assert (strategy.epochs, strategy.batch_sequences, strategy.weight_decay) == (2, 8, 0.01)
    assert (strategy.schedule, strategy.warmup, phase.learning_rate) == ("cosine", 0.05, 1e-4)
    assert phase.lora == Lora(r=8, alpha=32, dropout=0.05)
    assert strategy.sentences is None and strategy.gradient_checkpointing


def test_a_phase_may_override_the_learning_rate_and_parts_of_the_adapters():
    own = {**PHASE, "share": 0.5, "learning_rate": 2e-6, "lora": {"r": 2}}
    own["embedding_learning_rate"] = 1
    shared = {"learning_rate": 1e-3, "embedding_learning_rate": 0.2, "lora": {"alpha": 16}}
    first, second = read_strategy({"phases": [{**PHASE, "share": 0.5}, own], **shared}).phases
    assert (first.learning_rate, second.learning_rate) == (1e-3, 2e-6)
    assert (first.embedding_learning_rate, second.embedding_learning_rate) == (0.2, 1)
    assert first.lora == Lora(r=8, alpha=16, dropout=0.05)
    assert second.lora == Lora(r=2, alpha=16, dropout=0.05)


def parts_of(phase):
    return tuple(item for item in phase.trainable if isinstance(item, str))


def test_the_registry_has_the_strategies_of_the_paper():
    named = {name: read_strategy(settings) for name, settings in ENTRIES.items()}
    every = ["embeddings", "head"]
    layers = (0, 1, -2, -1)
    procedures = {
        "lora": [((*every, "lora"), (), 1.0)],
        "two-stage": [(tuple(every), (), 0.5), ((*every, "lora"), (), 0.5)],
        "2x2ls": [(tuple(every), layers, 1.0)],
    }
    grid = [
        (procedure, objective, length, "copied", f"{procedure}-{objective}-{length}")
        for procedure in procedures
        for objective in ("clm", "mtp")
        for length in (2048, 512)
    ]
    table_10 = [
        (procedure, "mtp", 2048, "random", f"{procedure}-mtp-random-head-2048")
        for procedure in procedures
    ]
    for procedure, objective, length, extra_head, name in grid + table_10:
        phases = named.pop(name).phases
        assert [(parts_of(p), p.layers, p.share) for p in phases] == procedures[procedure], name
        for phase in phases:
            assert (phase.objective, phase.length) == (objective, length), name
            if objective == "mtp":
                assert (phase.extra_head, phase.extra_logits) == (extra_head, "as-head"), name
    assert {"none", "2x2ls-mtp-512-as-published"} <= named.keys()


def test_alma_trains_the_whole_model_on_the_corpus_and_then_on_parallel_sentences():
    # VocADT, §5.3: 5 B tokens of five languages, one pass over pairs; the rest is ALMA's.
    strategy = read_strategy(ENTRIES["alma"])
    assert [(p.trainable, p.data, p.tokens_per_language, p.epochs) for p in strategy.phases] == [
        (("all",), {"monolingual": 1.0}, 1_000_000_000, None),
        (("all",), {"parallel": 1.0}, None, 1),
    ]
    assert {(p.length, p.learning_rate) for p in strategy.phases} == {(512, 2e-5)}
    assert (strategy.batch_sequences, strategy.warmup) == (256, 0.01)


def test_likelihood_matching_is_taught_by_the_cell_s_source_or_by_another_model():
    named = {"objective": "alm", "alm": {"teacher": "large"}}
    for name in ("aim", "alm"):
        phases = [PHASE | {"share": 0.5}, PHASE | {"share": 0.5, "objective": name}]
        assert read_strategy({"phases": phases}).teacher("own") == "own"
    assert read_strategy({"phases": [PHASE | named]}).teacher("own") == "large"
    assert read_strategy({"phases": [PHASE]}).teacher("own") is None


@pytest.mark.bad_input(
    "config",
    "invalid shares of training data",
    "rejected with a message that gives their sum or names the key",
)
@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"monolingual": 0.85, "tasks": 0.1}, "shares add up to 0.95; they must add up to 1"),
        ({}, r"data: the shares add up to 0"),
        ({"monolingual": 1.5, "tasks": -0.5}, r"data\.monolingual: 1.5 is not at most 1"),
        ({"monolingual": "half", "tasks": 0.5}, r"data\.monolingual: 'half' is not a number"),
        (["monolingual"], r"phases\[0\]\.data: .* is not a mapping"),
    ],
)
def test_invalid_shares_are_refused(data, message):
    with pytest.raises(UserError, match=message):
        read_strategy({"phases": [{**PHASE, "data": data}]})


def test_samples_of_a_strategy_are_listed_once():
    texts = ("monolingual", "b", {"monolingual": 0.5, "a": 0.5}, "b")
    phases = [PHASE | {"share": 0.25, "data": data} for data in texts]
    assert read_strategy({"phases": phases}).samples == ["b", "a"]
    assert read_strategy({"phases": []}).samples == []


@pytest.mark.parametrize("name", ENTRIES)
def test_a_strategy_survives_a_round_trip_through_plain_data(name):
    strategy = read_strategy(ENTRIES[name])
    assert read_strategy(strategy.model_dump(mode="json")) == strategy


def test_plain_data_of_a_phase_has_only_the_given_keys():
    strategy = read_strategy({"phases": [{**PHASE, "lora": {"r": 2}}], "learning_rate": 1e-3})
    (phase,) = strategy.model_dump(mode="json")["phases"]
    assert phase["lora"] == {"r": 2} and "learning_rate" not in phase
    assert phase["data"] == "monolingual"


def test_the_registry_has_the_values_of_vocadt():
    strategy = read_strategy(ENTRIES["vocadt"])
    (phase,) = strategy.phases
    assert phase.trainable == ("adapter",) and phase.adapter == AdapterSettings(
        form="dense", entries=256, alpha=0.1
    )
    assert (phase.length, phase.learning_rate, phase.objective) == (512, 2e-6, "clm")
    assert (strategy.batch_sequences, phase.tokens_per_language) == (128, 500_000_000)
    assert (strategy.weight_decay, strategy.warmup, strategy.schedule) == (0.01, 0.01, "cosine")
    assert read_strategy(ENTRIES["vocadt-alpha-0"]).phases[0].adapter.alpha == 0
    assert read_strategy(ENTRIES["vocadt-sparse"]).phases[0].adapter.form == "sparse"


def test_alma_follows_the_adapters():
    strategy = read_strategy(ENTRIES["vocadt-alma"])
    assert (strategy.after, strategy.phases) == ("vocadt", read_strategy(ENTRIES["alma"]).phases)
    with pytest.raises(UserError, match="only the first phase can train an adapter"):
        read_strategy({"phases": [ADAPTED], "after": "alma"})


def test_a_phase_without_adapters_has_no_adapter_settings():
    assert read_strategy({"phases": [PHASE]}).phases[0].adapter is None
    assert read_strategy({"phases": [PHASE]}).parts_of_new_vocabulary == []
    phases = [phase | {"share": 0.5} for phase in (ADAPTED, PHASE)]
    assert read_strategy({"phases": phases}).parts_of_new_vocabulary == ["adapter"]


@pytest.mark.bad_input(
    "config",
    "an unknown, missing or out-of-range setting of a strategy",
    "rejected with a message that names the phase, the key and the valid range",
)
@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({}, "strategy: 'phases' is missing (a list of phases"),
        ({"phases": [PHASE], "epoch": 1}, "unknown key 'epoch'; did you mean 'epochs'?"),
        ({"phases": [{**PHASE, "seed": 1}]}, "phases[0]: unknown key 'seed'"),
        ({"phases": [{"trainable": ["head"]}]}, "phases[0]: 'length' is missing"),
        (
            {"phases": [{**PHASE, "trainable": ["norm"]}]},
            "trainable[0]: 'norm' is not one of 'embeddings'",
        ),
        ({"phases": [{"length": 8, "trainable": [3]}]}, "trainable[0]: needs"),
        ({"phases": [{**PHASE, "trainable": ["all", "head"]}]}, "'all' already includes"),
        ({"phases": [{**PHASE, "trainable": ["lora", {"layers": [0]}]}]}, "phase of their own"),
        ({"phases": [{**PHASE, "trainable": ["adapter", "lora"]}]}, "remove the other items"),
        ({"phases": [PHASE, PHASE]}, "add up to 2"),
        (
            {"phases": [{**PHASE, "objective": "rtd"}]},
            "objective: 'rtd' is not one of 'aim', 'alm', 'clm', 'distill', 'mlm', 'mtp'",
        ),
        ({"phases": [{**PHASE, "alm": {}}]}, "phases[0].alm: only objective alm takes this key"),
        (
            {"phases": [{**PHASE, "objective": "alm", "alm": {"temperature": 0}}]},
            "phases[0].alm.temperature: 0 is not above 0",
        ),
        ({"phases": [{**PHASE, "objective": "distill"}]}, "phases[0]: 'distill' is missing"),
        (
            {"phases": [{"trainable": ["adapter"], "length": 8, "objective": "mtp"}]},
            "phases[0].objective: an adapter has no head of their own to copy",
        ),
        (
            {"phases": [{**PHASE, "adapter": {}}]},
            "phases[0].adapter: this phase trains no adapter",
        ),
        (
            {
                "phases": [
                    {**PHASE, "share": 0.5},
                    {"trainable": ["adapter"], "length": 8, "share": 0.5},
                ]
            },
            "phases[1].trainable: only the first phase",
        ),
        ({"phases": [PHASE], "epochs": 0}, "strategy.epochs: 0 is not above 0"),
        ({"phases": [PHASE], "batch_sequences": 2.5}, "batch_sequences: 2.5 is not a whole number"),
        (
            {"phases": [PHASE], "lora": {"rank": 8}},
            "lora: unknown key 'rank'; choose from alpha, dora, dropout, learning_rate_ratio, r",
        ),
        (
            {"phases": [PHASE], "embedding_learning_rate": 1e-5},  # a rate, not a ratio
            "strategy.embedding_learning_rate: 1e-05 is not",
        ),
        (
            {"phases": [{**PHASE, "embedding_learning_rate": 101}]},
            "phases[0].embedding_learning_rate: 101 is not",
        ),
        (
            {"phases": [{**PHASE, "trainable": ["lora"], "embedding_learning_rate": 0.2}]},
            "phases[0].embedding_learning_rate: this phase trains neither embeddings nor head",
        ),
        (
            {"phases": [PHASE], "lora": {"learning_rate_ratio": 0.5}},
            "strategy.lora.learning_rate_ratio: 0.5 is not",
        ),
        ({"phases": [PHASE], "curve": []}, "strategy.curve: [] is not a mapping"),
    ],
)
def test_a_wrong_setting_is_an_error_of_one_line(settings, named):
    with pytest.raises(UserError) as caught:
        read_strategy(settings)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
