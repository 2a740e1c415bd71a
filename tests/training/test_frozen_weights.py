"""Frozen weights in bfloat16 give what float32 ones give under autocast, to the last bit."""

import copy
import json

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from lexigraft.hardware import device
from lexigraft.training.distributed import Computation
from lexigraft.training.frozen_weights import FrozenWeights
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.settings import read_strategy
from lexigraft.training.train import train_cell
from lexigraft.training.trainable import own_parameters, prepare_phase
from tests.inference.conftest import FAMILIES, SMALL
from tests.training.test_train import LAYERS, LORA, SHARED, TWO_STAGE, folder_of, tensors_of

NAMES = ("llama", "mistral", "gemma2", "qwen2", "gpt_neox")
PHASES = {
    "lora": ["embeddings", "head", "lora"],
    "one layer": ["embeddings", "head", {"layers": [0]}],
    "matrices": ["embeddings", "head"],
    "new rows": ["new-rows"],
    "new rows and lora": ["new-rows", "lora"],
    "outside": ["outside-layers"],
    "all": ["all"],
}


@pytest.fixture(autouse=True)
def bfloat16(full_precision, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", "bfloat16")


def source_of(name, folder, dtype=torch.float32):
    """A random model of a family, saved in a dtype."""
    config = AutoConfig.for_model(name, **{**SMALL, **FAMILIES.get(name, ({},))[0]})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).to(dtype)
    model.save_pretrained(folder)
    return folder


def phase_of(trainable):
    settings = {"trainable": trainable, "length": 16, "lora": {"dropout": 0.5}}
    if "lora" not in trainable:
        del settings["lora"]
    return read_strategy({"phases": [settings]}).phases[0]


def prepared(model, phase, folder=None):
    """A model ready for a phase as training prepares it; with a folder, frozen weights are held."""
    frozen = FrozenWeights(model, folder)
    if folder is not None:
        frozen.hold(own_parameters(model, phase))
    torch.manual_seed(1)
    with frozen.shown_as_float32():
        prepare_phase(model, phase, [40, 41, 45])
    return model.train()


def loss_and_gradients(model):
    ids = torch.randint(1, 50, (3, 16), generator=torch.Generator().manual_seed(2))
    ids = ids.to(model.device)
    torch.manual_seed(3)  # dropout
    loss = Computation(model)(CausalModeling().losses, {"input_ids": ids, "labels": ids.clone()})
    loss.sum().backward()
    return loss, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("trainable", PHASES.values(), ids=PHASES)
@pytest.mark.parametrize("name", NAMES)
def test_losses_and_gradients_are_those_of_float32_weights(name, trainable, tmp_path):
    folder = source_of(name, tmp_path)
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device())
    held = copy.deepcopy(plain)
    phase = phase_of(trainable)
    loss, gradients = loss_and_gradients(prepared(plain, phase))
    found, others = loss_and_gradients(prepared(held, phase, folder))
    assert torch.equal(found, loss)
    assert others.keys() == gradients.keys() and gradients
    assert all(torch.equal(others[key], gradients[key]) for key in gradients)
    # Not of embeddings and norms, which autocast does not round.
    rounded = {name for name, p in held.named_parameters() if p.dtype == torch.bfloat16}
    assert bool(rounded) == ("all" not in trainable)
    assert not any(p.requires_grad for name, p in held.named_parameters() if name in rounded)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_weights_that_are_trained_later_have_their_own_values_again(dtype, tmp_path):
    folder = source_of("llama", tmp_path, dtype)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    frozen = FrozenWeights(model, folder)
    frozen.hold(())
    name = "model.layers.0.mlp.up_proj.weight"
    assert model.get_parameter(name).dtype == torch.bfloat16
    frozen.hold({name})
    assert torch.equal(model.get_parameter(name), before[name])
    assert model.get_parameter(name.replace("up", "down")).dtype == torch.bfloat16
    frozen.restore()
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())


def test_on_hardware_that_computes_in_float32_nothing_is_rounded(tmp_path, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", "float32")
    folder = source_of("llama", tmp_path)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    FrozenWeights(model, folder).hold(())
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


STRATEGIES = {
    "lora": [LORA],
    "layers": [LAYERS],
    "matrices, then lora": TWO_STAGE,
    "lora, then lora": [{**LORA, "share": 0.5}, {**LORA, "share": 0.5}],
    "matrices, then all": [TWO_STAGE[0], {**TWO_STAGE[0], "trainable": ["all"]}],
    "a layer, then another": [
        {**LAYERS, "trainable": [{"layers": [at]}], "share": 0.5} for at in (0, 1)
    ],
    "mtp": [{**LORA, "objective": "mtp"}],
}


@pytest.mark.parametrize("phases", STRATEGIES.values(), ids=STRATEGIES)
def test_a_cell_ends_as_with_float32_weights(training_setup, phases, monkeypatch):
    setup = training_setup()
    cells = []
    for seed, hold in ((0, True), (0, False)):
        if not hold:
            monkeypatch.setattr(FrozenWeights, "hold", lambda *_: None)
        job = setup.job({**SHARED, "phases": phases}, strategy=f"held-{hold}", seed=seed)
        job["seed"] = ["study", "training", "same"]
        train_cell(job)
        lines = (folder_of(job) / "log.jsonl").read_text().splitlines()
        cells.append((tensors_of(folder_of(job)), [json.loads(line).get("loss") for line in lines]))
    (held, losses), (plain, others) = cells
    assert losses == others and held.keys() == plain.keys()
    assert all(torch.equal(held[key], plain[key]) for key in held)
