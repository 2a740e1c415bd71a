"""The simulated peak of a training is that of a real one, and micro-batches follow from it."""

import logging
from contextlib import nullcontext

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from lexigraft.inference.chunked_logits import CHUNK_LOGITS
from lexigraft.training import memory, phase
from lexigraft.training.memory import (
    MOST_TOKENS,
    TRAINING_MEMORY_SHARE,
    plan_memory,
    simulated_phases,
)
from lexigraft.training.phase import PhaseMemory
from lexigraft.training.settings import read_strategy
from tests.architectures import tiny_model

LLAMA = {
    "vocab_size": 600, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False,
}  # fmt: skip
MATRICES = ["embeddings", "head"]


@pytest.fixture(autouse=True)
def short_passes(monkeypatch):
    """Passes and chunks in proportion to a model this small."""
    monkeypatch.setitem(CHUNK_LOGITS, "cuda", 2**14)
    monkeypatch.setenv("LEXIGRAFT_PASS_TOKENS", "64")


ADAPTER = {"trainable": ["adapter"]}
DISTILLED = {"trainable": ["all"], "objective": "distill", "distill": {"teacher": "llama"}}
MATCHED = {"trainable": [*MATRICES, {"layers": [-1]}], "objective": "alm"}


def simulated_peak(config, strategy, rows, *, teacher=None, tokenizer=None, **options):
    """The peak over all phases."""
    parts = {"tokenizer": tokenizer, "teacher": teacher}
    return max(phase.peak(**options) for phase in simulated_phases(config, strategy, rows, **parts))


def strategy_of(*phases):
    return read_strategy({"phases": [{"length": 32, **phase} for phase in phases]})


@pytest.mark.parametrize(
    ("family", "phases", "gpus"),
    [
        ("llama", [{"trainable": [*MATRICES, "lora"]}], 1),
        ("gemma2", [{"trainable": [*MATRICES, {"layers": [0, -1]}], "objective": "mtp"}], 1),
        ("llama", [{"trainable": ["new-rows"]}], 1),
        ("llama", [{"trainable": MATRICES, "share": 0.5}, {"trainable": ["all"], "share": 0.5}], 1),
        ("llama", [ADAPTER], 1),
        ("gemma2", [ADAPTER | {"adapter": {"form": "sparse", "entries": 8}}], 1),
        ("llama", [DISTILLED], 2),
        ("gemma2", [MATCHED | {"alm": {"next_weight": 1.0}}], 1),
        ("llama", [MATCHED], 2),
    ],
)
def test_the_simulated_peak_is_that_of_the_same_steps_on_real_tensors(
    family, phases, gpus, monkeypatch
):
    config = AutoConfig.for_model(family, **LLAMA)
    teacher = AutoConfig.for_model("llama", **LLAMA | {"vocab_size": 640})
    given = {"gpus": gpus, "teacher": teacher}
    strategy = strategy_of(*phases)
    found = simulated_peak(config, strategy, 640, **given)
    monkeypatch.setattr(memory, "FakeTensorMode", lambda **_: nullcontext())
    assert found == pytest.approx(simulated_peak(config, strategy, 640, **given), rel=0.02)


def test_sharding_divides_the_sixteen_bytes_per_parameter():
    config = AutoConfig.for_model("llama", **{**LLAMA, "hidden_size": 256})
    strategy = strategy_of({"trainable": ["all"]})
    peaks = [simulated_peak(config, strategy, 600, tokens=32, gpus=gpus) for gpus in (2, 4)]
    numbers = 2 * 600 * 256 + 3 * 256 * (2 * 256 + 2 * 128 + 3 * 96)
    assert peaks[0] - peaks[1] == pytest.approx(16 * numbers * (1 / 2 - 1 / 4), rel=0.05)


def test_offloaded_parameters_take_the_memory_of_one_layer():
    sizes = {**LLAMA, "hidden_size": 256, "intermediate_size": 512}
    strategy = strategy_of({"trainable": ["all"]})
    layer = 256 * (2 * 256 + 2 * 128 + 3 * 512)
    peaks = {}
    for count in (2, 4):
        config = AutoConfig.for_model("llama", **{**sizes, "num_hidden_layers": count})
        [phase] = simulated_phases(config, strategy, 600)
        peaks[count] = [phase.peak(32, offload=offload) for offload in (False, True)]
    whole, offloaded = (peaks[4][at] - peaks[2][at] for at in (0, 1))
    assert whole == pytest.approx(2 * 16 * layer, rel=0.02)
    assert offloaded < 0.02 * whole  # activations at the layers' ends


def test_trained_parameters_take_sixteen_bytes_and_frozen_ones_two():
    config = AutoConfig.for_model("llama", **{**LLAMA, "hidden_size": 512, "num_hidden_layers": 5})
    layer = config.hidden_size * (2 * 512 + 2 * 256 + 3 * 96)
    peaks = [
        simulated_peak(config, strategy_of({"trainable": [{"layers": layers}]}), 600)
        for layers in ([0], [0, 1, 2, 3, 4])
    ]
    # Weights, gradients and two moments of float32, for weights of bfloat16.
    assert peaks[1] - peaks[0] == pytest.approx(4 * layer * (16 - 2), rel=0.05)


def test_fake_tensors_are_computed_as_on_a_cpu_on_a_machine_with_a_gpu_too(monkeypatch):
    """Autocast of the wrong device would not round them to bfloat16."""
    config = AutoConfig.for_model("llama", **LLAMA)
    strategy = strategy_of({"trainable": [*MATRICES, "lora"]})
    without = simulated_peak(config, strategy, 640)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert simulated_peak(config, strategy, 640) == without


@pytest.mark.parametrize("phase", [{"trainable": ["outside-layers"]}, ADAPTER])
def test_further_tensors_with_a_row_per_token_are_simulated_with_new_rows(phase):
    config = tiny_model(AutoModelForCausalLM, "gemma4_text", 600).config
    strategy = strategy_of(phase)
    few, many = (simulated_peak(config, strategy, rows) for rows in (640, 4000))
    width = config.num_hidden_layers * config.hidden_size_per_layer_input
    assert many - few > (4000 - 640) * width * 4


LENGTH, SEQUENCES, MEGABYTE = 512, 64, 2**20
DEFAULT = PhaseMemory(4096, 1.0)


class SimplePhase:
    """A phase whose memory is a formula, with the parts that a real one has."""

    def __init__(self, strategy):
        self.strategy, self.phase = strategy, strategy.phases[0]

    def peak(self, tokens, *, recompute, offload=False, logits=None, later=False):
        tokens = min(max(tokens, LENGTH), SEQUENCES * LENGTH)
        gradients = 2000 if later or tokens < SEQUENCES * LENGTH else 0
        activations = tokens * (0.7 + 4.2 * (1 - recompute))
        of_logits = min(tokens * 2**15, logits or 2**28) * 16 / MEGABYTE
        return int(MEGABYTE * (8000 + gradients + max(activations, of_logits)))


@pytest.fixture
def plan(monkeypatch):
    """`plan(megabytes)`: the memory of a phase on a GPU with so many free megabytes."""
    monkeypatch.delenv("LEXIGRAFT_PASS_TOKENS")
    whole = {"trainable": ["all"], "length": LENGTH}
    strategy = read_strategy({"phases": [whole], "batch_sequences": SEQUENCES})
    monkeypatch.setattr(memory, "simulated_phases", lambda *_, **__: [SimplePhase(strategy)])

    def run(megabytes):
        free = int(megabytes * MEGABYTE / TRAINING_MEMORY_SHARE) + 1
        [choice] = plan_memory(None, strategy, 640, offload=False, free=free)
        needed = SimplePhase(strategy).peak(choice.tokens, recompute=choice.recompute) / MEGABYTE
        return choice, needed

    return run


def test_more_memory_means_fewer_recomputed_layers_and_then_larger_micro_batches(plan, caplog):
    sizes = range(13_000, 95_000, 2_000)
    choices, needed = zip(*map(plan, sizes), strict=True)
    shares, tokens = ([getattr(c, name) for c in choices] for name in ("recompute", "tokens"))
    assert shares == sorted(shares, reverse=True) and tokens == sorted(tokens)
    assert set(shares) == {0, 0.25, 0.5, 0.75, 1} and {8192, MOST_TOKENS} <= set(tokens)
    assert all(peak <= size + 1 for peak, size in zip(needed, sizes, strict=True))
    assert plan(1000)[0] == PhaseMemory(1, 1.0)
    assert "may not fit into the 1.1 GiB" in caplog.text


def test_machine_settings_take_precedence(plan, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_RECOMPUTE", "0.5")
    assert plan(10**6)[0] == PhaseMemory(4096, 0.5)
    monkeypatch.setenv("LEXIGRAFT_PASS_TOKENS", "777")
    assert plan(10**6)[0] == plan(1)[0] == PhaseMemory(777, 0.5)
    monkeypatch.delenv("LEXIGRAFT_RECOMPUTE")
    assert plan(10**6)[0] == PhaseMemory(777, 0.0)


def test_without_a_gpu_or_a_simulation_the_defaults_are_used(monkeypatch, caplog):
    monkeypatch.delenv("LEXIGRAFT_PASS_TOKENS")

    def fails(*_, **__):
        raise NotImplementedError("no fake kernel")

    monkeypatch.setattr(memory, "simulated_phases", fails)
    strategy = strategy_of({"trainable": ["all"]})
    assert plan_memory(None, strategy, 640, offload=False) == [PhaseMemory(2048, 1.0)]
    assert plan_memory(None, strategy, 640, offload=False, free=2**40) == [DEFAULT]
    assert "no fake kernel" in caplog.text


def test_the_choice_fits_by_the_simulation_of_the_model_itself(monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.delenv("LEXIGRAFT_PASS_TOKENS")
    monkeypatch.setattr(memory, "LEAST_LOGITS", 2**13)
    monkeypatch.setitem(phase.MICRO_BATCH_TOKENS, "cuda", 64)
    config = AutoConfig.for_model("llama", **LLAMA)
    strategy = strategy_of({"trainable": ["all"]})

    def peak(share):
        return simulated_peak(config, strategy, 600, tokens=64, recompute=share)

    free = int((peak(1.0) + peak(0.0)) / 2 / TRAINING_MEMORY_SHARE)
    [choice] = plan_memory(config, strategy, 600, offload=False, free=free)
    assert choice.tokens == 64 and choice.recompute > 0
    assert peak(1.0) <= peak(choice.recompute) <= free * TRAINING_MEMORY_SHARE
    assert f"micro-batches of 64 tokens, {choice.recompute:.0%} of the layers" in caplog.text
