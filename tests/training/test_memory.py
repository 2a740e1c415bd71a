"""The simulated peak of a training is that of a real one, counted in the same way."""

from contextlib import nullcontext

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from lexigraft.inference.chunked_logits import CHUNK_LOGITS
from lexigraft.training import memory
from lexigraft.training.memory import simulated_phases
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
INFLUENCE = {"trainable": ["embeddings"], "objective": "aim"}


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
        ("llama", [DISTILLED], 1),
        ("llama", [DISTILLED], 2),
        ("gemma2", [MATCHED | {"alm": {"next_weight": 1.0}}], 1),
        ("llama", [MATCHED], 2),
        ("llama", [INFLUENCE], 1),
        ("llama", [INFLUENCE | {"trainable": MATRICES, "aim": {"next_weight": 1.0}}], 2),
        ("llama", [{"trainable": [*MATRICES, "lora"], "lora": {"dora": True}}], 1),
    ],
    ids=[
        "lora",
        "mtp",
        "new rows",
        "two phases",
        "dense",
        "sparse",
        "distilled",
        "two GPUs",
        "matched",
        "matched on two",
        "influence",
        "influence on two",
        "dora",
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


def test_dense_adapters_take_sixteen_bytes_per_parameter():
    config = AutoConfig.for_model("llama", **LLAMA)
    peaks = [simulated_peak(config, strategy_of(ADAPTER), rows) for rows in (640, 1280)]
    # And more while the gradient of one is computed: this gradient, and the adapter in bfloat16.
    assert 16 <= (peaks[1] - peaks[0]) / (2 * 640 * 600) <= 16 + 10


def test_sharding_divides_the_sixteen_bytes_per_parameter():
    config = AutoConfig.for_model("llama", **{**LLAMA, "hidden_size": 256})
    strategy = strategy_of({"trainable": ["all"]})
    peaks = [simulated_peak(config, strategy, 600, tokens=32, gpus=gpus) for gpus in (2, 4)]
    numbers = 2 * 600 * 256 + 3 * 256 * (2 * 256 + 2 * 128 + 3 * 96)
    assert peaks[0] - peaks[1] == pytest.approx(16 * numbers * (1 / 2 - 1 / 4), rel=0.05)


def test_frozen_weights_take_more_memory_in_float32():
    config = AutoConfig.for_model("llama", **{**LLAMA, "hidden_size": 512})
    strategy = strategy_of({"trainable": [{"layers": [0]}]})
    peaks = [
        simulated_phases(config, strategy, 600, dtype=dtype)[0].peak()
        for dtype in (torch.bfloat16, torch.float32)
    ]
    frozen = 2 * config.hidden_size * (2 * 512 + 2 * 256 + 3 * 96)
    # Two bytes more, less what is copied in bfloat16 of trained ones.
    assert frozen < peaks[1] - peaks[0] <= 2.1 * frozen


def test_offloaded_parameters_take_the_memory_of_one_layer():
    sizes = {**LLAMA, "hidden_size": 256, "intermediate_size": 512}
    strategy = strategy_of({"trainable": ["all"]})
    layer = 256 * (2 * 256 + 2 * 128 + 3 * 512)
    peaks, machine = {}, {}
    for count in (2, 4):
        config = AutoConfig.for_model("llama", **{**sizes, "num_hidden_layers": count})
        [phase] = simulated_phases(config, strategy, 600)
        peaks[count] = [phase.peak(32, offload=offload) for offload in (False, True)]
        machine[count] = phase.machine_memory()
    whole, offloaded = (peaks[4][at] - peaks[2][at] for at in (0, 1))
    assert whole == pytest.approx(2 * 16 * layer, rel=0.02)
    assert offloaded < 0.02 * whole  # activations at the layers' ends
    assert machine[4] - machine[2] >= 2 * 16 * layer


def test_layers_that_are_not_recomputed_keep_their_activations():
    config = AutoConfig.for_model("llama", **LLAMA)
    strategy = strategy_of({"trainable": [{"layers": [-1]}]})
    [phase] = simulated_phases(config, strategy, 600)
    every, some, none = (phase.peak(recompute=share) for share in (1, 1 / 3, 0))
    assert every <= some <= none and every < none


def test_trained_parameters_take_sixteen_bytes_and_frozen_ones_two():
    config = AutoConfig.for_model("llama", **{**LLAMA, "hidden_size": 512, "num_hidden_layers": 5})
    layer = config.hidden_size * (2 * 512 + 2 * 256 + 3 * 96)
    peaks = [
        simulated_peak(config, strategy_of({"trainable": [{"layers": layers}]}), 600)
        for layers in ([0], [0, 1, 2, 3, 4])
    ]
    # Weights, gradients and two moments of float32, for weights of bfloat16.
    assert peaks[1] - peaks[0] == pytest.approx(4 * layer * (16 - 2), rel=0.05)


def test_moments_of_8_bits_save_six_bytes_per_parameter_outside_embeddings():
    config, strategy = AutoConfig.for_model("llama", **LLAMA), strategy_of({"trainable": MATRICES})
    small = strategy.model_copy(update={"optimizer": "adamw-8bit"})
    peaks = [simulated_peak(config, one, 600) for one in (strategy, small)]
    assert peaks[0] - peaks[1] == 6 * 600 * LLAMA["hidden_size"]


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
