"""What training promises holds on the GPU."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from lexigraft.hardware import device
from lexigraft.inference import chunked_logits
from tests.inference.conftest import FAMILIES, SMALL
from tests.inference.test_chunked_logits import assert_as_precise, assert_same
from tests.training import test_frozen_weights, test_new_rows, test_offload, test_train

NAMES = ("llama", "mistral", "gemma2", "gpt_neox")
# Vocabulary, hidden size, layers, sequences, tokens of each.
VOCABULARY, HIDDEN, LAYERS, ROWS, LENGTH = 50, 32, 2, 2, 8
DTYPES = ["bfloat16"]
if device().type == "cuda":
    VOCABULARY, HIDDEN, LAYERS, ROWS, LENGTH = 32_000, 1024, 4, 8, 512
    DTYPES = ["bfloat16", "float32"]
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": 2 * HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": max(2, HIDDEN // 64),
    "head_dim": min(HIDDEN // 2, 64),
    "max_position_embeddings": 512,
    "initializer_range": 2 / HIDDEN**0.5,
}


@pytest.fixture(params=NAMES)
def model(request):
    """A random model of an architecture, whose soft cap bends its logits if it has one."""
    own = FAMILIES.get(request.param, ({},))[0]
    torch.manual_seed(0)
    with device():
        config = AutoConfig.for_model(request.param, **{**SMALL, **own, **SIZES})
        return AutoModelForCausalLM.from_config(config).eval()


def batch():
    """Random tokens, the last sequence padded by two."""
    ids = torch.randint(1, VOCABULARY, (ROWS, LENGTH), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[-1, -2:] = 0
    return {"input_ids": ids.to(device()), "attention_mask": mask.to(device())}


@pytest.mark.parametrize("check", [assert_same, assert_as_precise], ids=["float32", "bfloat16"])
def test_chunks_have_the_loss_and_the_gradients_of_all_logits(model, check, monkeypatch):
    third = ROWS * LENGTH * VOCABULARY // 3
    monkeypatch.setitem(chunked_logits.CHUNK_LOGITS, device().type, third)
    check(model, batch())


@pytest.mark.parametrize("trainable", ["lora", "one layer", "new rows"])
@pytest.mark.parametrize("name", NAMES)
def test_frozen_weights_in_bfloat16_change_no_bit(name, trainable, tmp_path, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", "bfloat16")
    monkeypatch.setattr(test_frozen_weights, "SMALL", {**SMALL, **SIZES})
    test_frozen_weights.test_losses_and_gradients_are_those_of_float32_weights(
        name, test_frozen_weights.PHASES[trainable], tmp_path
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_interrupted_run_equals_an_uninterrupted_one(
    training_setup, training_setup_in, dtype, monkeypatch, tmp_path_factory
):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", dtype)
    test_train.test_an_interrupted_run_is_bit_identical_to_an_uninterrupted_one(
        training_setup,
        test_train.uninterrupted_runs(training_setup_in, tmp_path_factory),
        test_train.TWO_STAGE,
        "late",
    )


def test_old_rows_are_bit_identical_while_new_ones_are_trained(grafted):
    test_new_rows.test_a_cell_keeps_old_rows_bit_for_bit_and_lowers_the_loss(grafted, tied=False)


@pytest.mark.parametrize("offload", [False, True], ids=["on the GPU", "offloaded"])
def test_the_memory_of_a_training_is_planned_and_offloading_changes_losses_by_rounding(
    training_setup_in, offload, monkeypatch, tmp_path_factory, caplog
):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", "float32")
    caplog.set_level("INFO", "lexigraft.training.memory")
    runs = test_offload.runs(training_setup_in, tmp_path_factory)
    # Weights are not compared: AdamW's first steps are as large for gradients near 0, which are
    # mostly rounding, as for others.
    (_, steps), (_, others) = (runs(way, tokens=64) for way in (False, offload))
    assert [loss for loss, _ in others] == pytest.approx([loss for loss, _ in steps], rel=1e-4)
    if device().type == "cuda":
        assert "cannot be simulated" not in caplog.text
        assert "(simulated in" in caplog.text
