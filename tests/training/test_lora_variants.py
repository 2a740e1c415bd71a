"""LoRA+, rsLoRA and DoRA: what they do to adapters, and whole cells that are resumed and loaded."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback

from lexigraft.inference.likelihood import score_texts
from lexigraft.training.data import SequenceDataset, concatenate, pack
from lexigraft.training.lora import merge_lora
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.phase import run_phase
from lexigraft.training.settings import read_strategy
from lexigraft.training.store import load_cell
from lexigraft.training.train import train_cell
from lexigraft.training.trainable import FrozenWeights, prepare_phase
from tests.training.interruption import EAGER, interrupted_at


def strategy_of(**lora):
    return read_strategy(
        {
            "phases": [{"trainable": ["lora"], "length": 24, "lora": {"dropout": 0.0, **lora}}],
            "learning_rate": 1e-3, "schedule": "constant", "warmup": 0.0,
            "gradient_checkpointing": False,
        }
    )  # fmt: skip


class Rates(TrainerCallback):
    """The learning rates of parameters, by the second part of LoRA's names."""

    def __init__(self, model):
        self.model, self.found = model, {}

    def on_step_end(self, args, state, control, optimizer=None, **kwargs):
        named = {id(p): name for name, p in self.model.named_parameters()}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                matrix = named[id(parameter)].rpartition(".lora_")[2][:1]
                self.found.setdefault(matrix, set()).add(group["lr"])


@pytest.mark.parametrize("ratio", [1.0, 16.0])
def test_second_matrices_take_steps_of_their_own_size(tiny_llama, tmp_path, ratio):
    model, strategy = tiny_llama(50), strategy_of(r=2, learning_rate_ratio=ratio)
    prepare_phase(model, strategy.phases[0])
    rates = Rates(model)
    run_phase(
        model, strategy.phases[0], strategy,
        SequenceDataset(pack(concatenate([list(range(50)) * 2]), 24), np.arange(2)),
        seed=0, folder=tmp_path, checkpoint=None, callbacks=[rates], objective=CausalModeling(),
    )  # fmt: skip
    assert rates.found == {"A": {1e-3}, "B": {ratio * 1e-3}}
    moved = {n: p.detach().abs().max().item() for n, p in model.named_parameters() if "lora_B" in n}
    # Second matrices start at zero, and AdamW's first step has the size of its rate.
    assert moved and all(far == pytest.approx(ratio * 1e-3, rel=0.01) for far in moved.values())


@pytest.mark.parametrize(("rslora", "scale"), [(False, 2.0), (True, 4.0)])
def test_the_root_of_the_rank_divides_the_update_of_rslora(tiny_llama, rslora, scale):
    model = tiny_llama(50)
    before = model.model.layers[0].mlp.up_proj.weight.detach().clone()
    _, adapter = prepare_phase(model, strategy_of(r=4, alpha=8.0, rslora=rslora).phases[0])
    layer = model.model.layers[0].mlp.up_proj
    first, second = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    torch.nn.init.normal_(second)
    update = (second @ first).detach()
    merge_lora(adapter)
    after = model.model.layers[0].mlp.up_proj.weight
    assert torch.allclose(after, before + scale * update, atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_norms_of_dora_start_as_those_of_the_weights(
    tiny_llama, tmp_path, monkeypatch, precision
):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", precision)
    model = tiny_llama(50)
    model.save_pretrained(tmp_path)
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    frozen = FrozenWeights(model, tmp_path)
    frozen.round_all_but(())
    frozen.prepare_phase(model, strategy_of(dora=True).phases[0])
    norms = {n: p for n, p in model.named_parameters() if "lora_magnitude_vector" in n}
    assert len(norms) == 4 * 7
    for name, norm in norms.items():
        weight = weights[name.replace(".lora_magnitude_vector.default", "")]
        assert norm.dtype == torch.float32 and norm.requires_grad
        assert torch.allclose(norm, weight.norm(dim=1), rtol=1e-6)


def test_a_cell_resumes_bit_for_bit_and_loads_as_it_was_trained(training_setup, telugu):
    """Of two phases with adapters of both kinds; those of the first are merged between them."""
    place = training_setup(tied=False, sentences=4)
    phase = {"trainable": ["lora"], "length": 32, "share": 0.5}
    kinds = [{"rslora": True}, {"dora": True, "learning_rate_ratio": 4.0}]
    job = place.job(
        {
            "phases": [{**phase, "lora": kind} for kind in kinds], "batch_sequences": 2,
            "epochs": 1, "learning_rate": 1e-2, "schedule": "wsd", "decay": 0.5,
            "curve": {"sentences": 2, "points": 0},
        }
    )  # fmt: skip
    folder = Path(job["outputs"]["folder"])

    def outcome():
        files = sorted(folder.rglob("*.safetensors"))
        tensors = {(f.name, name): t for f in files for name, t in load_file(f).items()}
        return tensors, json.loads((folder / "card.json").read_text())

    train_cell(job)
    whole, card = outcome()
    model, tokenizer = load_cell(folder)
    found = score_texts(model, tokenizer, telugu[-10:-8])
    assert found.bits_per_byte == pytest.approx(card["heldout_after"], rel=1e-4)
    assert card["heldout_after"] < card["heldout_before"]
    with interrupted_at(card["steps"] - 1):
        train_cell(job, EAGER)
    train_cell(job, EAGER)
    again, resumed = outcome()
    assert resumed["resumed_from_step"] > card["steps"] / 2
    assert whole.keys() == again.keys()
    assert all(torch.equal(tensor, again[name]) for name, tensor in whole.items())
