"""How a training uses the memory of its GPU follows from how much of it is free."""

import logging

import pytest
from transformers import AutoConfig

from lexigraft.inference.chunked_logits import CHUNK_LOGITS
from lexigraft.training import memory, phase
from lexigraft.training.memory import MOST_TOKENS, TRAINING_MEMORY_SHARE, plan_memory
from lexigraft.training.phase import PhaseMemory
from lexigraft.training.settings import read_strategy
from tests.training.test_memory import LLAMA, simulated_peak

LENGTH, SEQUENCES = 512, 64
CONFIG = AutoConfig.for_model("llama", **LLAMA)
DEFAULT = PhaseMemory(4096, 1.0)
MEGABYTE = 2**20


def strategy_of_parts(*parts, length=LENGTH, sequences=SEQUENCES, **settings):
    phases = [{"length": length, "share": 1 / len(parts), "trainable": part} for part in parts]
    return read_strategy({"phases": phases, "batch_sequences": sequences, **settings})


class SimplePhase:
    """A phase whose memory is a formula, with the parts that a real one has."""

    def __init__(self, strategy, trained):
        self.strategy, self.phase, self.trained = strategy, strategy.phases[0], trained

    def peak(self, tokens, *, recompute, offload=False, logits=None, later=False):
        tokens = min(max(tokens, LENGTH), SEQUENCES * LENGTH)
        recompute = recompute if self.strategy.gradient_checkpointing else 0
        weights = 2000 if offload else 2000 + 3 * self.trained
        if not offload and (later or tokens < SEQUENCES * LENGTH):
            weights += self.trained
        activations = tokens * (0.7 + 4.2 * (1 - recompute))
        of_logits = min(tokens * 2**15, logits or 2**28) * 16 / MEGABYTE
        return int(MEGABYTE * (weights + max(activations, of_logits)))

    def machine_memory(self):
        return 8 * self.trained * MEGABYTE


@pytest.fixture
def plan(monkeypatch):
    """`plan(megabytes, *trained, **settings)`: of phases that train so many megabytes."""
    monkeypatch.setattr(memory, "machine_memory", lambda: 20_000 * MEGABYTE)

    def run(megabytes, *trained, **settings):
        strategy = strategy_of_parts(*[["all"] for _ in trained or [0]], **settings)
        phases = [SimplePhase(strategy, size) for size in trained or [2000]]
        monkeypatch.setattr(memory, "simulated_phases", lambda *_, **__: phases)
        return plan_memory(
            CONFIG, strategy, 640, free=int(megabytes * MEGABYTE / TRAINING_MEMORY_SHARE) + 1
        )

    return run


def needed(choice, trained=2000, **options):
    """The megabytes that a choice takes."""
    options = {"recompute": choice.recompute} | options
    simple = SimplePhase(strategy_of_parts(["all"]), trained)
    return simple.peak(choice.tokens, **options) / MEGABYTE


def test_with_much_memory_micro_batches_are_large_and_nothing_is_recomputed(plan):
    assert plan(10**6).phases == (PhaseMemory(MOST_TOKENS, 0.0),)
    assert plan(10**6, sequences=3).phases == (PhaseMemory(4096, 0.0),)
    assert not plan(10**6).offload


def test_more_memory_means_fewer_recomputed_layers_and_then_larger_micro_batches(plan):
    low, high = needed(DEFAULT), needed(PhaseMemory(MOST_TOKENS, 0.0))
    sizes = [low + (high - low) * part / 40 for part in range(42)]
    choices = [plan(size).phases[0] for size in sizes]
    shares = [choice.recompute for choice in choices]
    tokens = [choice.tokens for choice in choices]
    assert shares == sorted(shares, reverse=True) and tokens == sorted(tokens)
    assert set(shares) == {0, 0.25, 0.5, 0.75, 1} and set(tokens) == {4096, 8192, MOST_TOKENS}
    assert all(needed(choice) <= size + 1 for choice, size in zip(choices, sizes, strict=True))


def test_where_the_default_micro_batch_does_not_fit_it_is_halved(plan):
    least = {"logits": memory.LEAST_LOGITS, "later": True}
    for tokens in (2048, 1024, LENGTH):
        [choice] = plan(needed(PhaseMemory(tokens, 1.0), **least) + 1).phases
        assert choice == PhaseMemory(tokens, 1.0)


def test_a_training_that_does_not_fit_at_all_is_offloaded(plan, caplog):
    caplog.set_level(logging.INFO)
    choice = plan(8000)
    assert choice.offload and needed(choice.phases[0], offload=True) <= 8000
    [message] = caplog.messages
    assert "machine's memory" in message
    assert f"micro-batches of {choice.phases[0].tokens} tokens" in message


@pytest.mark.parametrize("reason", ["memory", "setting", "optimizer"])
def test_offloading_needs_memory_permission_and_plain_adamw(reason, plan, monkeypatch, caplog):
    settings = {"optimizer": "adamw-8bit"} if reason == "optimizer" else {}
    if reason == "setting":
        monkeypatch.setenv("LEXIGRAFT_OFFLOAD", "false")
    choice = plan(8000, 4000 if reason == "memory" else 2000, **settings)
    assert not choice.offload and choice.phases == (PhaseMemory(1, 1.0),)
    assert "may not fit" in caplog.text
    assert ("31.2 GiB" in caplog.text) == (reason == "memory")


def test_machine_settings_take_precedence(plan, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_OFFLOAD", "true")
    assert plan(10**6).offload
    monkeypatch.setenv("LEXIGRAFT_RECOMPUTE", "0.5")
    assert plan(10**6).phases == (PhaseMemory(4096, 0.5),)
    monkeypatch.setenv("LEXIGRAFT_PASS_TOKENS", "777")
    assert plan(10**6).phases == plan(1).phases == (PhaseMemory(777, 0.5),)
    monkeypatch.delenv("LEXIGRAFT_RECOMPUTE")
    assert plan(10**6).phases == (PhaseMemory(777, 0.0),)


def test_a_strategy_that_keeps_all_activations_has_smaller_micro_batches_instead(plan):
    [choice] = plan(needed(DEFAULT) + 5000, gradient_checkpointing=False).phases
    assert LENGTH <= choice.tokens < 4096


def test_each_phase_has_its_own_choice(plan):
    first, second = plan(needed(DEFAULT, 3000), 0, 3000).phases
    assert second == DEFAULT and first.recompute < 1


def test_on_a_cpu_nothing_is_simulated(monkeypatch):
    monkeypatch.setattr(memory, "simulated_phases", None)
    choice = plan_memory(CONFIG, strategy_of_parts(["new-rows"], ["all"]), 640)
    assert choice.phases == 2 * (PhaseMemory(2048, 1.0),) and not choice.offload


def test_an_architecture_that_cannot_be_simulated_is_trained_with_the_defaults(monkeypatch, caplog):
    def fails(*_, **__):
        raise NotImplementedError("no fake kernel")

    monkeypatch.setattr(memory, "simulated_phases", fails)
    assert plan_memory(CONFIG, strategy_of_parts(["all"]), 640, free=2**40).phases == (DEFAULT,)
    assert "no fake kernel" in caplog.text


def test_the_choice_fits_by_the_simulation_of_the_model_itself(monkeypatch):
    monkeypatch.setitem(CHUNK_LOGITS, "cuda", 2**14)
    monkeypatch.setattr(memory, "LEAST_LOGITS", 2**13)
    monkeypatch.setitem(phase.MICRO_BATCH_TOKENS, "cuda", 64)
    strategy = strategy_of_parts(["all"], length=32, sequences=4)

    def peak(share):
        return simulated_peak(CONFIG, strategy, 600, tokens=64, recompute=share)

    free = int((peak(1.0) + peak(0.0)) / 2 / TRAINING_MEMORY_SHARE)
    [choice] = plan_memory(CONFIG, strategy, 600, free=free).phases
    assert choice.tokens == 64 and choice.recompute > 0
    assert peak(1.0) <= peak(choice.recompute) <= free * TRAINING_MEMORY_SHARE


def test_the_memory_of_the_machine_is_what_slurm_grants(monkeypatch):
    available = memory.machine_memory()
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "64")
    assert memory.machine_memory() == 64 * MEGABYTE < available
