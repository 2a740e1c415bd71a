"""Frozen weights in bfloat16 give what float32 ones give under autocast, to the last bit."""

import copy
from itertools import cycle

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, core_model_loading

from lexigraft.hardware import device
from lexigraft.source.model import load_model
from lexigraft.training.distributed import Computation
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.settings import read_strategy
from lexigraft.training.train import train_cell
from lexigraft.training.trainable import FrozenWeights, prepare_phase
from lexigraft.training.training_log import TrainingLog
from tests.inference.conftest import FAMILIES, SMALL
from tests.training.interruption import EAGER, interrupted_at
from tests.training.test_train import (
    LAYERS,
    LORA,
    SHARED,
    TWO_STAGE,
    folder_of,
    same_bits,
    tensors_of,
)

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


DTYPES = (torch.float32, torch.float16, torch.bfloat16)


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
    torch.manual_seed(1)
    if folder is None:
        prepare_phase(model, phase, [40, 41, 45])
    else:
        FrozenWeights(model, folder).prepare_phase(model, phase, (), [40, 41, 45])
    return model.train()


def loss_and_gradients(model):
    ids = torch.randint(1, 50, (3, 16), generator=torch.Generator().manual_seed(2))
    ids = ids.to(model.device)
    torch.manual_seed(3)  # dropout
    loss = Computation(model)(CausalModeling().losses, {"input_ids": ids, "labels": ids.clone()})
    loss.sum().backward()
    return loss, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    ("trainable", "name"), zip(PHASES.values(), cycle(NAMES), strict=False), ids=PHASES
)
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


@pytest.mark.parametrize(
    ("name", "dtype"), zip([*NAMES, "gemma3_text", "gptj", "opt"], cycle(DTYPES), strict=False)
)
def test_weights_are_rounded_while_they_are_read(name, dtype, tmp_path, monkeypatch):
    inner, read = core_model_loading._materialize_copy, []
    folder = source_of(name, tmp_path, dtype)
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    trained = {name for name, _ in plain.named_parameters() if ".1." in name}
    monkeypatch.setattr(
        core_model_loading,
        "_materialize_copy",
        lambda *given: read.append(inner(*given)) or read[-1],
    )
    held = load_model(
        folder, torch.float32, prepare=lambda one: FrozenWeights(one, folder).round_all_but(trained)
    )
    head = plain.get_output_embeddings()
    layers = [one for one in plain.modules() if isinstance(one, torch.nn.Linear) and one != head]
    linear = {id(parameter) for layer in layers for parameter in layer.parameters()}
    others = dict(held.named_parameters())
    assert list(others) == [name for name, _ in plain.named_parameters()]
    for name, one in plain.named_parameters():
        rounded = id(one) in linear and name not in trained
        assert others[name].dtype == (torch.bfloat16 if rounded else torch.float32)
        assert torch.equal(others[name], one.to(others[name].dtype))
    buffers = dict(held.named_buffers())
    assert all(torch.equal(buffers[name], one) for name, one in plain.named_buffers())
    # Nothing came to the device in another precision before.
    assert {one.data_ptr() for one in read} == {one.data_ptr() for one in held.parameters()}
    # A subclass with the same name, which transformers looks up.
    assert isinstance(held, type(plain)) and type(held).__name__ == type(plain).__name__
    assert held.config.to_dict() == plain.config.to_dict()


STRATEGIES = {
    "matrices, then lora": TWO_STAGE,
    "lora, then lora": [{**LORA, "share": 0.5}, {**LORA, "share": 0.5}],
    "matrices, then all": [TWO_STAGE[0], {**TWO_STAGE[0], "trainable": ["all"]}],
    "a layer, then another": [
        {**LAYERS, "trainable": [{"layers": [at]}], "share": 0.5} for at in (0, 1)
    ],
    "mtp": [{**LORA, "objective": "mtp"}],
}


@pytest.mark.parametrize(
    ("phases", "dtype"), zip(STRATEGIES.values(), cycle(DTYPES)), ids=STRATEGIES
)
def test_a_cell_ends_as_with_float32_weights(training_setup, phases, dtype, monkeypatch):
    """The more so if it was interrupted in its last phase, and read its source again."""
    setup = training_setup(sentences=6)
    source = AutoModelForCausalLM.from_pretrained(setup.source)
    source.to(dtype).save_pretrained(setup.source)
    cells, last = [], 0
    for hold in (False, True):
        settings = {**SHARED, "phases": phases, "checkpoints": 2}
        job = setup.job(settings, strategy=f"held-{hold}")
        job["seed"] = ["study", "training", "same"]
        with monkeypatch.context() as patch:
            if not hold:
                patch.setattr(FrozenWeights, "round_all_but", lambda *_: None)
            else:
                with interrupted_at(last):
                    train_cell(job, EAGER)
            train_cell(job)
        folder = folder_of(job)
        lines = TrainingLog(folder / "log.jsonl").lines("step")
        last = lines[-1]["step"]
        stored = [tensors_of(folder), tensors_of(folder / "checkpoint-1")]
        cells.append((stored, [line["loss"] for line in lines]))
    (plain, losses), (held, others) = cells
    assert losses == others
    assert all(same_bits(one, other) for one, other in zip(held, plain, strict=True))
