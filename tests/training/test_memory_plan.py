"""What a training does with the memory of its GPU follows from how much of it is free."""

import logging

import pytest
from transformers import AutoConfig

from lexigraft.inference.chunked_logits import CHUNK_LOGITS
from lexigraft.training import memory_plan, passes
from lexigraft.training.memory import simulated_peak
from lexigraft.training.memory_plan import MOST_TOKENS, SHARE, plan_memory
from lexigraft.training.passes import TOKENS, PhaseMemory
from lexigraft.training.settings import read_strategy
from tests.training.test_memory import LLAMA

LENGTH, SEQUENCES = 512, 64
CONFIG = AutoConfig.for_model("llama", **LLAMA)
USUAL = PhaseMemory(4096, 1.0)
MEGABYTE = 2**20


def strategy_of(*parts, length=LENGTH, sequences=SEQUENCES, **settings):
    phases = [{"length": length, "share": 1 / len(parts), "trainable": part} for part in parts]
    return read_strategy({"phases": phases, "batch_sequences": sequences, **settings})


class Phase:
    """A phase whose memory can be told by hand, in the parts that a real one has."""

    layers = 12

    def __init__(self, strategy, trained):
        self.strategy, self.phase, self.trained = strategy, strategy.phases[0], trained

    def peak(self, tokens, *, recompute, offload=False, logits=None, between=False):
        tokens = min(max(tokens, LENGTH), SEQUENCES * LENGTH)
        again = round(recompute * self.layers) if self.strategy.gradient_checkpointing else 0
        held = 2000 if offload else 2000 + 3 * self.trained
        if not offload and (between or tokens < SEQUENCES * LENGTH):
            held += self.trained
        activations = tokens * (0.1 + 0.05 * again + 0.4 * (self.layers - again))
        of_logits = min(tokens * 2**15, logits or 2**28) * 16 / MEGABYTE
        return int(MEGABYTE * (held + max(activations, of_logits)))

    def machine_memory(self):
        return 8 * self.trained * MEGABYTE


@pytest.fixture
def plan(monkeypatch):
    """`plan(megabytes, *trained, **settings)`: of phases that train so many megabytes."""
    monkeypatch.setattr(memory_plan, "machine_memory", lambda: 20_000 * MEGABYTE)

    def run(megabytes, *trained, **settings):
        strategy = strategy_of(*[["all"] for _ in trained or [0]], **settings)
        phases = [Phase(strategy, one) for one in trained or [2000]]
        monkeypatch.setattr(memory_plan, "simulated_phases", lambda *_, **__: phases)
        return plan_memory(CONFIG, strategy, 640, free=int(megabytes * MEGABYTE / SHARE) + 1)

    return run


def needed(one, trained=2000, **options):
    """The megabytes that a choice takes."""
    phase = Phase(strategy_of(["all"]), trained)
    options = {"recompute": one.recompute} | options
    return phase.peak(one.tokens, **options) / MEGABYTE


def test_with_much_memory_passes_are_large_and_nothing_is_computed_twice(plan):
    assert plan(10**6).phases == (PhaseMemory(MOST_TOKENS, 0.0),)
    assert plan(10**6, sequences=3).phases == (PhaseMemory(4096, 0.0),)
    assert not plan(10**6).offload


def test_more_memory_means_fewer_layers_computed_again_then_larger_passes(plan):
    low, high = needed(USUAL), needed(PhaseMemory(MOST_TOKENS, 0.0))
    free = [low + (high - low) * part / 40 for part in range(42)]
    found = [plan(one).phases[0] for one in free]
    shares, tokens = ([getattr(one, key) for one in found] for key in ("recompute", "tokens"))
    assert shares == sorted(shares, reverse=True) and tokens == sorted(tokens)
    assert len(set(shares)) > 5 and len(set(tokens)) > 5
    assert all(one.tokens == USUAL.tokens or one.recompute == 0 for one in found)
    assert all(needed(one) <= there + 1 for one, there in zip(found, free, strict=True))
    # And no more than one layer, or a tenth of the tokens, is given away.
    for one, there in zip(found, free, strict=True):
        if one.recompute:
            fewer = PhaseMemory(one.tokens, one.recompute - 2 / Phase.layers)
        else:
            fewer = PhaseMemory(int(one.tokens * 1.1) + 1, 0.0)
        assert needed(fewer) > there or one.tokens == MOST_TOKENS


def test_where_the_usual_pass_does_not_fit_it_is_smaller(plan):
    least = {"logits": memory_plan.LEAST_LOGITS, "between": True}
    low, high = (needed(PhaseMemory(n, 1.0), **least) for n in (LENGTH, 4096))
    for part in (0.01, 0.4, 0.8):
        free = low + (high - low) * part
        [one] = plan(free).phases
        assert LENGTH <= one.tokens < USUAL.tokens and one.recompute == 1
        assert needed(one, **least) <= free + 1 < needed(PhaseMemory(one.tokens + 9, 1.0), **least)
        assert not plan(free).offload


def test_what_does_not_fit_at_all_is_offloaded(plan, caplog):
    caplog.set_level(logging.INFO)
    found = plan(8000)
    assert found.offload and needed(found.phases[0], offload=True) <= 8000
    [line] = [one.message for one in caplog.records]
    assert "machine's memory" in line
    assert f"micro-batches of {found.phases[0].tokens} tokens" in line


@pytest.mark.parametrize("why", ["memory", "setting", "optimizer"])
def test_nothing_is_offloaded_that_may_not_be(why, plan, monkeypatch, caplog):
    settings = {"optimizer": "adamw-8bit"} if why == "optimizer" else {}
    if why == "setting":
        monkeypatch.setenv("LEXIGRAFT_OFFLOAD", "false")
    found = plan(8000, 4000 if why == "memory" else 2000, **settings)
    assert not found.offload and found.phases == (PhaseMemory(1, 1.0),)
    assert any("may not fit" in one.message for one in caplog.records)
    assert any("31.2 GiB" in one.message for one in caplog.records) == (why == "memory")


def test_machine_settings_are_followed(plan, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_OFFLOAD", "true")
    assert plan(10**6).offload
    monkeypatch.setenv("LEXIGRAFT_RECOMPUTE", "0.5")
    assert plan(10**6).phases == (PhaseMemory(USUAL.tokens, 0.5),)
    monkeypatch.setenv(TOKENS, "777")
    assert plan(10**6).phases == plan(1).phases == (PhaseMemory(777, 0.5),)
    monkeypatch.delenv("LEXIGRAFT_RECOMPUTE")
    assert plan(10**6).phases == (PhaseMemory(777, 0.0),)


def test_a_strategy_that_keeps_all_activations_has_smaller_passes_instead(plan):
    [one] = plan(needed(USUAL) + 5000, gradient_checkpointing=False).phases
    assert LENGTH < one.tokens < USUAL.tokens


def test_each_phase_has_its_own(plan):
    free = needed(USUAL, 3000)
    first, second = plan(free, 0, 3000).phases
    assert second == USUAL
    assert first.recompute < 1
    assert plan(free, 3000, 3000).phases == (USUAL, USUAL)


def test_on_a_cpu_nothing_is_simulated(monkeypatch):
    monkeypatch.setattr(memory_plan, "simulated_phases", None)
    found = plan_memory(CONFIG, strategy_of(["new-rows"], ["all"]), 640)
    assert found.phases == 2 * (PhaseMemory(2048, 1.0),) and not found.offload


def test_an_architecture_that_cannot_be_simulated_is_trained_as_usual(monkeypatch, caplog):
    def fails(*_, **__):
        raise NotImplementedError("no fake kernel")

    monkeypatch.setattr(memory_plan, "simulated_phases", fails)
    assert plan_memory(CONFIG, strategy_of(["all"]), 640, free=2**40).phases == (USUAL,)
    assert "no fake kernel" in caplog.text


def test_what_is_chosen_fits_by_the_simulation_of_the_model_itself(monkeypatch):
    monkeypatch.setitem(CHUNK_LOGITS, "cuda", 2**14)
    monkeypatch.setattr(memory_plan, "LEAST_LOGITS", 2**13)
    monkeypatch.setitem(passes._TOKENS, "cuda", 64)
    strategy = strategy_of(["all"], length=32, sequences=4)

    def peak(one, **options):
        shown = {"tokens": one.tokens, "recompute": one.recompute}
        return simulated_peak(CONFIG, strategy, 600, **shown, **options)

    low, high = (peak(PhaseMemory(64, share)) for share in (1.0, 0.0))
    free = int((low + high) / 2 / SHARE)
    [one] = plan_memory(CONFIG, strategy, 600, free=free).phases
    assert one.tokens == 64 and one.recompute > 0
    assert low <= peak(one) <= free * SHARE


def test_the_memory_of_the_machine_is_what_slurm_grants(monkeypatch):
    here = memory_plan.machine_memory()
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "64")
    assert memory_plan.machine_memory() == 64 * MEGABYTE < here
